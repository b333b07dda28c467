#include "function/function.h"

#include "program/numbers.h"
#include "program/ops.h"
#include "signature/relax.h"
#include "trace/modes.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace tracehost {
namespace {

std::uint64_t nanoseconds(std::chrono::steady_clock::duration duration) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count());
}

bool same_signature(const Signature &a, const Signature &b) { return differences(a, b).empty(); }

/// The relaxed dimensions of `signature`, for the tracer.
trace::Relaxation relaxed_dimensions(const Signature &signature, const Body &body) {
  trace::Relaxation result;
  result.pins = body.pins;
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

bool rebinds(const Specialization &served) { return served.front_end && served.front_end->rebinds; }

} // namespace

FunctionCore::FunctionCore(Identity identity, std::size_t limit, Sink &sink,
                           validate::Policy policy, Clock clock)
    : counters_(std::make_shared<Counters>()), cache_(limit), policy_(policy), clock_(clock),
      sink_(sink) {
  counters_->identity = std::move(identity);
  sink_.created(counters_);
}

FunctionCore::Outcome FunctionCore::call(Body &body, torch::jit::Stack &stack,
                                         SpecializationRef &served) {
  try {
    served = look_up(body, stack);
    if (!served) [[unlikely]]
      return miss(body, stack, served);
    return hit(body, stack, served);
  } catch (CheckFailed &check) {
    body.begun = check.take_begun();
    return call_without(body, stack, served);
  } catch (const Raised &) { // before the body's stores, which eager has made by then
    if (!served || !served->raises_early || !rebinds(*served))
      throw;
    return call_without(body, stack, served);
  } catch (const LeavesNumbers &) { // Python goes on with an int past 64 bits
    if (!served || !served->raises_early)
      throw;
    return call_without(body, stack, served);
  }
}

/// A check of `served` has failed, or it has raised before it changed anything: the graph for
/// another value may serve, or one more is traced, whose body raises itself.
FunctionCore::Outcome FunctionCore::call_without(Body &body, torch::jit::Stack &stack,
                                                 SpecializationRef &served) {
  for (;;) {
    Program::take_failed_at();
    body.failed.push_back(served);
    stack.clear();
    try {
      served = look_up(body, stack);
      if (served)
        return hit(body, stack, served);
      body.begun.reset(); // puts back what it has saved
      const Outcome outcome = miss(body, stack, served);
      if (outcome == Outcome::traced)
        share_start(body, *served);
      return outcome;
    } catch (CheckFailed &check) { // the one that look_up() has found now
      body.begun = check.take_begun();
    } catch (const Raised &) {
      body.begun.reset();
      if (!served || !served->raises_early || !rebinds(*served))
        throw;
    } catch (const LeavesNumbers &) {
      body.begun.reset();
      if (!served || !served->raises_early)
        throw;
    }
  }
}

/// Calls for which `made` serves, and those of the graphs that have failed in its favour, may take
/// turns.
void FunctionCore::share_start(const Body &body, const Specialization &made) {
  std::vector<Program::Named> programs;
  const auto add = [&](const Specialization &one) {
    const std::size_t slots = one.signature.slots.size();
    Program::Named &named = programs.emplace_back(Program::Named{one.program, {}});
    for (std::uint32_t i = 0; i < one.program->graph().inputs().size(); ++i)
      named.inputs.push_back(i < slots || i - slots >= one.signature.captures.size()
                                 ? fmt::format("argument {}", i)
                                 : one.signature.input_path(i));
  };
  for (const SpecializationRef &failed : body.failed)
    add(*failed);
  add(made);
  Program::share_start(programs);
}

FunctionCore::Outcome FunctionCore::hit(Body &body, torch::jit::Stack &stack,
                                        const SpecializationRef &served) {
  counters_->hits.fetch_add(1, std::memory_order_relaxed);
  const auto before = served->hits.fetch_add(1, std::memory_order_relaxed);
  if (policy_.every && (before + 1) % policy_.every == 0) [[unlikely]] {
    body.begun.reset();
    return hit_beside(body, stack, served);
  }
  const auto ended = [&](bool failed) {
    counters_->hits.fetch_sub(1, std::memory_order_relaxed);
    served->hits.fetch_sub(1, std::memory_order_relaxed);
    counters_->failed.fetch_add(failed, std::memory_order_relaxed);
  };
  try {
    body.execute(*served, stack, body.begun.get());
  } catch (const CheckFailed &) { // another graph serves, or is traced
    ended(false);
    throw;
  } catch (const Raised &) {
    ended(!served->raises_early);
    throw;
  } catch (...) {
    ended(true);
    throw;
  }
  return Outcome::hit;
}

SpecializationRef FunctionCore::look_up(Body &body, torch::jit::Stack &stack) {
  const auto list = cache_.list();
  const auto stamp = calls_.fetch_add(1, std::memory_order_relaxed);
  const std::size_t last = last_.load(std::memory_order_relaxed);
  c10::SmallVector<const Specialization *, 2> failed;
  const std::size_t found = list->find(last, [&](Specialization &one) {
    if (body.has_failed(one))
      return false;
    if (body.begun && one.program->start(*body.begun) == Program::Start::differs) {
      failed.push_back(&one);
      return false;
    }
    if (!body.verify(one, stack))
      return false;
    if (one.program->checks_hold(stack)) [[likely]]
      return true;
    failed.push_back(&one);
    stack.clear();
    return false;
  });
  if (!failed.empty()) [[unlikely]]
    for (const auto &one : *list)
      if (std::find(failed.begin(), failed.end(), one.get()) != failed.end())
        body.failed.push_back(one);
  if (found == list->size()) [[unlikely]]
    return nullptr;
  if (found != last)
    last_.store(found, std::memory_order_relaxed);
  (*list)[found]->last_used.store(stamp, std::memory_order_relaxed);
  return (*list)[found];
}

SpecializationRef FunctionCore::look_up(Body &body, const Signature &signature) {
  const auto list = cache_.list();
  for (const auto &candidate : *list) {
    Signature now = signature;
    body.session().environment(*candidate, now);
    if (differences(candidate->signature, now).empty())
      return candidate;
  }
  return nullptr;
}

SpecializationRef FunctionCore::find(Body &body) {
  torch::jit::Stack stack;
  return look_up(body, stack);
}

SpecializationRef FunctionCore::request(Body &body) {
  Missed missed;
  body.session().adapt();
  missed.signature = body.session().flatten(missed.slots);
  missed.counted = false;
  if (refusals_.of(missed.signature) == Refusals::Why::wrong)
    body.session().frontend().refuse(
        trace::Refusal::trace, "a graph for this signature did not do what the body did, as a "
                               "TraceWarning said; there is none");
  const auto look = [&] { return look_up(body, missed.signature); };
  if (auto found = look())
    return found;
  bool traced = false;
  return obtain(body, missed, look, traced);
}

FunctionCore::Explanation FunctionCore::explain(Body &body) {
  Explanation result;
  std::vector<at::Tensor> slots;
  body.session().adapt();
  result.signature = body.session().flatten(slots);
  if ((result.served = look_up(body, result.signature)))
    return result;
  result.differences = nearest(body, result.signature, result.nearest).differences;
  return result;
}

FunctionCore::Outcome FunctionCore::miss(Body &body, torch::jit::Stack &stack,
                                         SpecializationRef &served) {
  if (body.session().adapt() && (served = look_up(body, stack)))
    return hit(body, stack, served);
  body.session().missed();
  const Stance stance = body.stance;
  if (stance == Stance::eager_on_miss || stance == Stance::fail_on_miss)
    return Outcome::unserved;
  Missed missed;
  missed.signature = body.session().flatten(missed.slots);
  const bool goes_on = stance == Stance::eager_on_error;
  if (const auto why = refusals_.of(missed.signature))
    if (goes_on || why == Refusals::Why::wrong)
      return Outcome::unserved;
  bool traced = false;
  try {
    served = obtain(
        body, missed, [&] { return look_up(body, stack); }, traced);
  } catch (...) {
    if (!goes_on || !body.session().has_result())
      throw;
    body.refusal = body.session().current_error();
    refusals_.add(missed.signature, Refusals::Why::refused);
    counters_->eager.fetch_add(1, std::memory_order_relaxed);
    return Outcome::went_on;
  }
  if (!served)
    return body.mismatch ? Outcome::went_on : Outcome::unserved;
  return traced ? Outcome::traced : hit(body, stack, served);
}

/// Null: the graph was wrong, as `body.mismatch` tells, or another thread's has been.
SpecializationRef FunctionCore::obtain(Body &body, const Missed &missed, const Lookup &look_up,
                                       bool &traced) {
  for (;;) {
    std::vector<at::Tensor> slots = missed.slots;
    RelaxedCaptures captures;
    Signature target = relaxed(body, missed.signature, slots, captures);
    std::uint64_t version = 0;
    Flights::Ref other;
    for (const auto &flight : flights_.under_way(version))
      if (same_signature(flight->signature, target))
        other = flight;
    if (other && other->owner == std::this_thread::get_id())
      throw std::logic_error(
          "recursion into a Function that is being traced for the same signature");
    if (other) {
      body.session().frontend().blocking([&] { flights_.wait(other); });
    } else if (auto flight = flights_.board(target, version)) {
      const Landing landing(flights_, flight);
      // A flight of another thread may have landed between look-up and boarding.
      if (auto served = look_up())
        return served;
      const auto start = clock_();
      try {
        Made made = trace(body, std::move(target), missed, slots, std::move(captures));
        made.specialization->trace_ns = nanoseconds(clock_() - start);
        if (made.verdict.kind == validate::Verdict::Kind::wrong) {
          counters_->eager.fetch_add(1, std::memory_order_relaxed);
          judge(body, missed.signature, *made.specialization, std::move(made.verdict), 0);
          return nullptr;
        }
        publish(body, missed, made.specialization, std::move(made.notes));
        traced = true;
        return made.specialization;
      } catch (...) {
        sink_.on(FailEvent{counters_, body.session().caller(), body.session().current_error(),
                           body.stance == Stance::eager_on_error && body.session().has_result()});
        throw;
      }
    }
    if (auto served = look_up())
      return served;
    if (missed.counted && refusals_.of(missed.signature) == Refusals::Why::wrong)
      return nullptr;
  }
}

namespace {

/// Makes each size of the captures any size that differs from the earlier one's. `tensors`: of the
/// captures of `now`, which are those of `before`.
void relax_captures(const Signature &before, const Signature &now,
                    const std::vector<at::Tensor> &tensors,
                    std::vector<trace::Relaxation::Capture> &captures) {
  for (std::size_t i = 0; i < std::min(before.captures.size(), tensors.size()); ++i) {
    const auto &then = before.captures[i].meta.sizes;
    if (!tensors[i].defined() || before.captures[i].held || before.captures[i].same_as_slot >= 0 ||
        then.size() != static_cast<std::size_t>(tensors[i].dim()))
      continue;
    auto known = std::find_if(captures.begin(), captures.end(), [&](const auto &capture) {
      return capture.tensor.is_same(tensors[i]);
    });
    for (std::size_t d = 0; d < then.size(); ++d) {
      if (then[d] == now.captures[i].meta.sizes[d])
        continue;
      if (known == captures.end())
        known = captures.insert(known, {tensors[i], now.captures[i].path, {}});
      const auto dimension = static_cast<std::int32_t>(d);
      auto &dimensions = known->dimensions;
      if (std::find(dimensions.begin(), dimensions.end(), dimension) == dimensions.end())
        dimensions.push_back(dimension);
    }
  }
}

} // namespace

/// tf's rule for reduce_retracing (reference rows 3.20-3.26): one after the other, the earlier
/// Signatures that differ in sizes and user types alone make those sizes any, and of the types
/// common supertypes. The same is done to what the body reaches (`captures`).
Signature FunctionCore::relaxed(Body &body, const Signature &signature,
                                std::vector<at::Tensor> &slots, RelaxedCaptures &captures) {
  Signature result = signature;
  if (!counters_->identity.reduces || counters_->identity.declared)
    return result;
  for (const auto &earlier : cache_.list()->by_age()) {
    Signature joined = result, before = earlier->signature;
    if (!body.session().join(before, joined))
      continue;
    Signature now = joined;
    body.session().environment(*earlier, now);
    if (!only_sizes(differences(before, now)))
      continue;
    result = std::move(joined);
    relax(result, before);
    relax_captures(before, now, body.session().captures(*earlier), captures);
  }
  body.session().adopt(result, slots);
  return result;
}

namespace {

/// `failed`: those that would serve the call, were the numbers others.
trace::Outcomes outcomes_of(const Cache::List &list, std::size_t failed) {
  trace::Outcomes result{{}, failed};
  for (const auto &one : list)
    for (const CheckedNumber &checked : one->signature.checked)
      result.values[checked.where].insert(checked.value);
  return result;
}

/// Of two Signatures that differ in nothing else: the first value that does.
std::vector<Difference> checked_differently(const Signature &before, const Signature &after) {
  for (std::size_t i = 0; i < std::min(before.checked.size(), after.checked.size()); ++i)
    if (const CheckedNumber &a = before.checked[i], &b = after.checked[i]; a != b)
      return {{Cause::read, "a number that the body reads", -1, a.value, b.value, -1, b.where}};
  return {};
}

/// Whether gradients may be asked of a run; the body may begin them as well.
bool has_gradients(const Signature &signature) {
  const auto wants = [](const TensorMeta &meta) { return meta.requires_grad; };
  return signature.context.grad &&
         (std::any_of(signature.slots.begin(), signature.slots.end(), wants) ||
          std::any_of(signature.captures.begin(), signature.captures.end(),
                      [&](const auto &capture) { return wants(capture.meta); }));
}

} // namespace

FunctionCore::Made FunctionCore::trace(Body &body, Signature signature, const Missed &missed,
                                       const std::vector<at::Tensor> &slots,
                                       RelaxedCaptures captures) {
  auto made = std::make_shared<Specialization>();
  BodyResult result;
  std::optional<validate::Originals> originals;
  if (validates(missed))
    originals.emplace(policy_);
  const trace::Outcomes outcomes = outcomes_of(*cache_.list(), body.failed.size());
  const auto modes = trace::ThreadModes::now();
  auto relaxation = relaxed_dimensions(signature, body);
  relaxation.captures = std::move(captures);
  auto traced = trace::trace(
      slots, relaxation, body.session().frontend(),
      [&] {
        result = body.session().run();
        return result.tensors;
      },
      originals ? &*originals : nullptr, &outcomes);
  for (const trace::Pin &p : traced.pins) {
    const auto [slot, dimension] = p.dimension;
    if (slot >= slots.size()) { // a capture has the sizes of the trace unless they are any
      made->pinned.push_back(
          {traced.captures[slot - slots.size()].path, dimension, p.why, p.where});
      continue;
    }
    made->pinned.push_back(
        {path(signature, signature.first_node(slot)), dimension, p.why, p.where});
    pin(signature, slot, static_cast<std::size_t>(dimension), slots[slot].size(dimension));
  }
  signature.conditions = std::move(traced.conditions);
  signature.values = std::move(traced.values);
  signature.grads = traced.grads;
  signature.checked = std::move(traced.checked);
  signature.reads_strides = traced.reads_strides;
  signature.reads_leaf = traced.reads_leaf;
  made->front_end = body.session().finish(signature, traced);
  for (const auto &[input, dimension] : traced.relaxed_captures)
    signature.captures[input - slots.size()].meta.relax(static_cast<std::size_t>(dimension));
  made->signature = std::move(signature);
  made->outputs = std::move(result.outputs);
  made->program = std::make_unique<Program>(traced.graph, counters_->identity.name,
                                            result.tensors.size(), !has_gradients(made->signature));
  made->first_call = body.session().caller();
  made->raises_early = !traced.raises_late;
  Made all{made, std::move(traced.notes), {}};
  const bool serves_later = !made->front_end || made->front_end->once.empty();
  if (originals && serves_later) {
    const trace::ModesOfCall as_called(body.session().frontend(), modes,
                                       false); // the body may have left others
    try {
      all.verdict = validate(body, *made, result.tensors, *originals);
    } catch (const CheckFailed &e) {
      all.verdict = {validate::Verdict::Kind::wrong, e.what(), {}};
    }
  }
  if (all.verdict.kind == validate::Verdict::Kind::skipped)
    all.notes.push_back("not validated: " + all.verdict.why);
  return all;
}

/// The arguments of each are compared first. Surroundings are compared of those alone that can be
/// the nearest, paths and texts of them made of fewer still: neither grows with the cache.
Nearest FunctionCore::nearest(Body &body, const Signature &signature, SpecializationRef &found,
                              std::vector<std::uint64_t> *alike) {
  const auto list = cache_.list()->by_age();
  struct Candidate {
    int least; ///< its distance, by arguments
    std::size_t index;
    std::vector<Difference> differing;
  };
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto differing = differences(list[i]->signature, signature);
    candidates.push_back({distance(differing), i, std::move(differing)});
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate &a, const Candidate &b) {
    return a.least != b.least ? a.least < b.least : a.index > b.index;
  });
  const auto complete = [&](std::size_t i) {
    Signature now = signature;
    body.session().environment(*list[i], now);
    return differences(list[i]->signature, now);
  };
  Nearest result;
  for (auto &[least, i, differing] : candidates) {
    const bool declarable = alike && only_declarable(differing);
    if (!declarable && !result.may_be(i, least))
      continue;
    const auto surroundings = body.session().surroundings(*list[i]);
    if (surroundings == TraceSession::Surroundings::changed) {
      if (result.may_be(i, least + least_distance()))
        result.consider(i, complete(i));
      continue;
    }
    if (surroundings == TraceSession::Surroundings::unknown)
      differing = complete(i);
    if (alike && only_declarable(differing))
      alike->push_back(list[i]->number);
    result.consider(i, std::move(differing));
  }
  if (!list.empty())
    found = list[result.index];
  return result;
}

void FunctionCore::publish(Body &body, const Missed &missed, SpecializationRef made,
                           std::vector<std::string> notes) {
  TraceEvent event;
  event.function = counters_;
  event.call = made->first_call;
  event.signature = text(made->signature);
  event.full = &made->signature;
  event.request = Sketch(missed.signature);
  event.pinned = made->pinned;
  event.notes = std::move(notes);
  event.nanoseconds = made->trace_ns;
  event.ops = static_cast<std::uint32_t>(made->program->ops());
  event.was_evicted = cache_.was_evicted(event.signature);
  event.counted = missed.counted;
  SpecializationRef before;
  event.differences = nearest(body, missed.signature, before, &event.alike).differences;
  event.first = !before;
  if (before && event.differences.empty())
    event.differences = checked_differently(before->signature, made->signature);

  made->number = counters_->traces.fetch_add(1, std::memory_order_relaxed) + 1;
  made->bytes = estimated_bytes(*made);
  event.number = made->number;
  counters_->trace_ns.fetch_add(made->trace_ns, std::memory_order_relaxed);
  if (made->front_end && !made->front_end->once.empty()) {
    event.notes.push_back(made->front_end->once);
    sink_.on(event);
    return;
  }
  for (const auto &other : *cache_.list()) {
    if (types_are_narrower(made->signature, other->signature))
      made->above.push_back(other->number);
    else if (types_are_narrower(other->signature, made->signature))
      made->below.push_back(other->number);
  }
  made->last_used.store(calls_.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  const auto evicted = cache_.publish(made);
  const auto list = cache_.list();
  last_.store(static_cast<std::size_t>(std::find(list->begin(), list->end(), made) - list->begin()),
              std::memory_order_relaxed);
  counters_->live.store(list->size(), std::memory_order_relaxed);
  counters_->evicted.fetch_add(evicted.size(), std::memory_order_relaxed);
  sink_.on(event);
  for (const auto &s : evicted)
    sink_.on(EvictEvent{counters_, event.call, text(s->signature), s->hits.load(), cache_.limit(),
                        !s->signature.alive()});
}

void FunctionCore::clear() {
  const auto dropped = cache_.clear();
  refusals_.clear();
  counters_->live.store(0, std::memory_order_relaxed);
}

} // namespace tracehost
