#include "function/function.h"

#include "trace/tracer.h"

#include <chrono>
#include <stdexcept>

namespace tracehost {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

bool same_request(const Signature &a, const Signature &b) { return differences(a, b).empty(); }

/// The relaxed dimensions of `signature`, for the tracer.
trace::Relaxation relaxation(const Signature &signature, const Request &request) {
  trace::Relaxation result;
  result.may_pin = request.may_pin;
  for (std::uint32_t slot = 0; slot < signature.slots.size(); ++slot) {
    const auto &sizes = signature.slots[slot].sizes;
    result.names.push_back(path(signature, signature.first_node(slot)));
    for (std::size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] == kAnySize)
        result.dimensions.push_back({slot, static_cast<std::int32_t>(d)});
  }
  return result;
}

class Landing {
public:
  Landing(Flights &flights, Flights::Ref flight) : flights_(flights), flight_(std::move(flight)) {}
  ~Landing() { flights_.land(flight_); }
  Landing(const Landing &) = delete;
  Landing &operator=(const Landing &) = delete;

private:
  Flights &flights_;
  Flights::Ref flight_;
};

} // namespace

Function::Function(Identity identity, std::size_t limit, Sink &sink)
    : counters_(std::make_shared<Counters>()), cache_(limit), sink_(sink) {
  counters_->identity = std::move(identity);
  sink_.created(counters_);
}

Function::Outcome Function::call(Body &body, Request &request, torch::jit::Stack &stack,
                                 SpecializationRef &served) {
  served = look_up(body, request, stack);
  if (!served) [[unlikely]]
    return miss(body, request, stack, served);
  return hit(body, stack, *served);
}

Function::Outcome Function::hit(Body &body, torch::jit::Stack &stack, Specialization &served) {
  counters_->hits.fetch_add(1, std::memory_order_relaxed);
  served.hits.fetch_add(1, std::memory_order_relaxed);
  body.execute(served, stack);
  return Outcome::hit;
}

SpecializationRef Function::look_up(Body &body, Request &request, torch::jit::Stack &stack) {
  const auto list = cache_.list();
  const auto stamp = calls_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t last = last_.load(std::memory_order_relaxed);
  if (last < list->size() && body.verify(*(*list)[last], request, stack)) [[likely]] {
    (*list)[last]->last_used.store(stamp, std::memory_order_relaxed);
    return (*list)[last];
  }
  for (std::size_t i = list->size(); i-- > 0;) {
    if (i == last || !body.verify(*(*list)[i], request, stack))
      continue;
    last_.store(i, std::memory_order_relaxed);
    (*list)[i]->last_used.store(stamp, std::memory_order_relaxed);
    return (*list)[i];
  }
  return nullptr;
}

SpecializationRef Function::find(Body &body, Request &request) {
  torch::jit::Stack stack;
  return look_up(body, request, stack);
}

Function::Outcome Function::miss(Body &body, Request &request, torch::jit::Stack &stack,
                                 SpecializationRef &served) {
  std::vector<at::Tensor> slots;
  const Signature signature = body.flatten(request, slots);
  for (;;) {
    std::uint64_t version = 0;
    Flights::Ref other;
    for (const auto &flight : flights_.under_way(version))
      if (same_request(flight->signature, signature))
        other = flight;
    if (other && other->owner == std::this_thread::get_id())
      throw std::logic_error(
          "recursion into a Function that is being traced for the same signature");
    if (other) {
      body.blocking([&] { flights_.wait(other); });
    } else if (auto flight = flights_.board(signature, version)) {
      const Landing landing(flights_, flight);
      // A flight of another thread may have landed between look-up and boarding.
      if ((served = look_up(body, request, stack)))
        break;
      const auto start = Clock::now();
      try {
        auto made = trace(body, request, signature, slots);
        made->trace_ns = since(start);
        publish(body, request, made);
        served = std::move(made);
        return Outcome::traced;
      } catch (...) {
        sink_.on(FailEvent{counters_, body.caller(), body.current_error()});
        throw;
      }
    }
    if ((served = look_up(body, request, stack)))
      break;
  }
  return hit(body, stack, *served);
}

SpecializationRef Function::trace(Body &body, Request &request, Signature signature,
                                  const std::vector<at::Tensor> &slots) {
  auto made = std::make_shared<Specialization>();
  BodyResult result;
  const auto traced = trace::trace(slots, relaxation(signature, request), body.frontend(), [&] {
    result = body.run(request);
    return result.tensors;
  });
  signature.reads_strides = traced.reads_strides;
  signature.reads_leaf = traced.reads_leaf;
  made->front_end = body.finish(request, signature, traced);
  made->signature = std::move(signature);
  made->outputs = std::move(result.outputs);
  made->program =
      std::make_unique<Program>(traced.graph, counters_->identity.name, made->outputs.tensors);
  made->first_call = body.caller();
  return made;
}

void Function::publish(Body &body, Request &request, SpecializationRef made) {
  TraceEvent event;
  event.function = counters_;
  event.call = made->first_call;
  event.signature = text(made->signature);
  event.nanoseconds = made->trace_ns;
  event.ops = static_cast<std::uint32_t>(made->program->ops());
  event.was_evicted = cache_.was_evicted(event.signature);

  const auto before = cache_.list();
  event.first = before->empty();
  Nearest nearest;
  for (std::size_t i = 0; i < before->size(); ++i) {
    const Specialization &other = *(*before)[i];
    Signature request_now = made->signature;
    request_now.watched.clear();
    request_now.captures.clear();
    body.environment(other, request, request_now);
    nearest.consider(i, other.signature, request_now);
  }
  event.differences = std::move(nearest.differences);

  made->last_used.store(calls_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  const auto evicted = cache_.publish(made);
  const auto live = cache_.list()->size();
  last_.store(live - 1, std::memory_order_relaxed);
  counters_->traces.fetch_add(1, std::memory_order_relaxed);
  counters_->trace_ns.fetch_add(made->trace_ns, std::memory_order_relaxed);
  counters_->live.store(live, std::memory_order_relaxed);
  counters_->evicted.fetch_add(evicted.size(), std::memory_order_relaxed);
  sink_.on(event);
  for (const auto &s : evicted)
    sink_.on(EvictEvent{counters_, text(s->signature), s->hits.load(), cache_.limit()});
}

void Function::clear() {
  const auto dropped = cache_.clear();
  counters_->live.store(0, std::memory_order_relaxed);
}

} // namespace tracehost
