#include "runtime/loaded.h"

#include "program/stack_pool.h"
#include "report/contrast.h"
#include "runtime/walk.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

namespace tracehost::runtime {
namespace {

const archive::State &state_of(const Specialization &specialization) {
  return static_cast<const archive::State &>(*specialization.front_end);
}

/// What of a Context a call from C++ is compared by besides grad mode.
bool same_modes(const Context &a, const Context &b) {
  return a.deterministic == b.deterministic && a.default_dtype == b.default_dtype &&
         a.autocast_cpu == b.autocast_cpu && a.autocast_cuda == b.autocast_cuda;
}

struct GivenSizes final : SizeSource {
  explicit GivenSizes(const Slots &slots) : slots(slots) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    return slots[static_cast<std::size_t>(slot)]->size(dimension);
  }
  const Slots &slots;
};

bool same_read(const Signature &signature, const TensorMeta &meta, const at::Tensor &t) {
  return (!signature.reads_leaf || t.is_leaf() == meta.is_leaf) &&
         (!signature.reads_strides || t.layout() != at::kStrided ||
          t.strides() == c10::IntArrayRef(meta.strides) ||
          (meta.relaxed && meta.contiguous && t.is_contiguous()));
}

/// A call never traces: nothing of a Body for traces is asked for.
[[noreturn]] void never() { throw std::logic_error("an archive does not trace"); }

class NoTrace final : public trace::Frontend {
public:
  Site here() override { never(); }
  std::string capture_path(const at::Tensor &) override { never(); }
  [[noreturn]] void refuse(trace::Refusal, const std::string &) override { never(); }
};

} // namespace

/// The Body of one call.
class Loaded::Call final : public Body {
public:
  Call(const Loaded &function, const Bound &bound, bool inference)
      : function_(function), bound_(bound), inference_(inference) {
    request.stance = Stance::fail_on_miss;
    request.context = Context::now();
    if (inference)
      request.context.grad = false;
  }

  bool verify(Specialization &specialization, Request &, torch::jit::Stack &stack) override;
  void execute(const Specialization &specialization, torch::jit::Stack &stack) override;

  Signature flatten(Request &, std::vector<at::Tensor> &) override { never(); }
  void environment(const Specialization &, Request &, Signature &) override { never(); }
  BodyResult run(Request &) override { never(); }
  std::shared_ptr<FrontEndState> finish(Request &, Signature &, const trace::Traced &) override {
    never();
  }
  trace::Frontend &frontend() override {
    static NoTrace none;
    return none;
  }
  void blocking(const std::function<void()> &wait) override { wait(); }
  Site caller() override { return {}; }
  std::string current_error() override { return {}; }

  Request request;
  bool exact = false; ///< grad mode and requires_grad take part

private:
  const at::Tensor &input(const Specialization &specialization, std::uint32_t index) const {
    return index < slots_.size() ? *slots_[index]
                                 : state_of(specialization).captures[index - slots_.size()];
  }
  bool reads_hold(const Specialization &specialization) const;

  const Loaded &function_;
  const Bound &bound_;
  const bool inference_;
  Slots slots_;
};

bool Loaded::Call::verify(Specialization &specialization, Request &, torch::jit::Stack &stack) {
  const Signature &signature = specialization.signature;
  const Context &made = signature.context;
  if (!same_modes(made, request.context) || (exact && made.grad != request.context.grad) ||
      (function_.by_default_device_ && made.default_device != 0) ||
      !matches(signature, function_.binder_, bound_, exact, slots_))
    return false;
  for (const SizeCondition &condition : signature.conditions)
    if (!holds(condition, GivenSizes(slots_)))
      return false;
  if (!reads_hold(specialization))
    return false;
  for (const at::Tensor *t : slots_)
    stack.emplace_back(*t);
  for (const at::Tensor &capture : state_of(specialization).captures)
    stack.emplace_back(capture);
  return true;
}

/// What the body read of its inputs' strides, values and gradients is so still.
bool Loaded::Call::reads_hold(const Specialization &specialization) const {
  const Signature &signature = specialization.signature;
  if (signature.reads_strides || signature.reads_leaf) [[unlikely]]
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (!same_read(signature, signature.slots[i], *slots_[i]))
        return false;
  for (const ValueGuard &guard : signature.values)
    if (!holds(guard, input(specialization, guard.input)))
      return false;
  for (const GradRead &read : signature.grads)
    if (grad_state(input(specialization, read.input)) != read.state)
      return false;
  return true;
}

void Loaded::Call::execute(const Specialization &specialization, torch::jit::Stack &stack) {
  const Program &program = *specialization.program;
  const bool grad = at::GradMode::is_enabled();
  try {
    if (inference_ && !program.runs_engine()) {
      const c10::InferenceMode on;
      program.run(stack);
    } else {
      program.run(stack);
    }
  } catch (c10::Error &e) {
    if (const auto where = Program::take_failed_at(); !where.empty())
      e.add_context(fmt::format("at {}, in {}", where, function_.name()));
    throw;
  }
  if (at::GradMode::is_enabled() != grad) [[unlikely]] // a region of the body ends in its own mode
    at::GradMode::set_enabled(grad);
}

Loaded::Loaded(const archive::Entry &entry, const std::string &path, Sink &sink)
    : binder_(entry.name, entry.parameters, entry.defaults),
      core_({.name = entry.name,
             .definition = {path, 0},
             .site_key = std::hash<std::string>()(path + '\n' + entry.name)},
            entry.specializations.size() + 1, sink, {validate::Policy::When::never, 0}),
      sink_(sink) {
  if (entry.specializations.empty())
    throw ArchiveError(fmt::format("{}: function '{}' has no graphs", path, entry.name));
  const Signature &first = entry.specializations.front()->signature;
  std::uint64_t number = 0;
  for (const SpecializationRef &s : entry.specializations) {
    by_gradients_ |= s->signature.context.grad != first.context.grad;
    by_default_device_ |= s->signature.context.default_device != first.context.default_device;
    for (const TensorMeta &slot : s->signature.slots)
      by_gradients_ |= slot.requires_grad;
    s->number = ++number;
    core_.cache().publish(s);
  }
  core_.counters()->live.store(core_.cache().list()->size(), std::memory_order_relaxed);
}

Value Loaded::call(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  binder_.bind(arguments, bound);
  auto result = run(bound, inference);
  if (!result) [[unlikely]]
    refuse(bound);
  return std::move(*result);
}

std::optional<Value> Loaded::served(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  binder_.bind(arguments, bound);
  return run(bound, inference);
}

std::optional<Value> Loaded::run(const Bound &bound, bool inference) {
  Call call(*this, bound, inference);
  PooledStack stack;
  SpecializationRef served;
  call.exact = by_gradients_;
  auto outcome = core_.call(call, call.request, *stack, served);
  if (outcome != FunctionCore::Outcome::hit && by_gradients_) [[unlikely]] {
    call.exact = false; // an op finds out by itself
    outcome = core_.call(call, call.request, *stack, served);
  }
  if (outcome != FunctionCore::Outcome::hit) [[unlikely]]
    return std::nullopt;
  return value_of(served->outputs.nodes, *stack);
}

/// What a call from C++ is not compared by is as in the Specialization.
void Loaded::refuse(const Bound &bound) {
  Nearest nearest;
  Signature request;
  const auto list = core_.cache().list()->by_age();
  const Context context = Context::now();
  std::string own;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Signature &candidate = list[i]->signature;
    std::vector<at::Tensor> tensors;
    request = signature_like(candidate, binder_, bound, tensors);
    own = text(request);
    request.context = candidate.context;
    request.context.deterministic = context.deterministic;
    request.context.default_dtype = context.default_dtype;
    request.context.autocast_cpu = context.autocast_cpu;
    request.context.autocast_cuda = context.autocast_cuda;
    if (by_default_device_)
      request.context.default_device = 0;
    for (std::size_t s = 0; s < std::min(request.slots.size(), candidate.slots.size()); ++s) {
      TensorMeta &meta = request.slots[s];
      meta.requires_grad = candidate.slots[s].requires_grad;
      if (same_keys(meta.keys, candidate.slots[s].keys))
        meta.keys = candidate.slots[s].keys;
    }
    const auto &captures = state_of(*list[i]).captures;
    const auto input = [&](std::uint32_t index) -> const at::Tensor & {
      return index < tensors.size() ? tensors[index] : captures[index - tensors.size()];
    };
    if (tensors.size() == candidate.slots.size()) {
      for (const ValueGuard &guard : candidate.values)
        if (can_be_guarded(input(guard.input)))
          request.values.push_back(guard_of(guard.input, input(guard.input)));
      for (const GradRead &read : candidate.grads)
        request.grads.push_back({read.input, grad_state(input(read.input))});
    }
    nearest.consider(i, candidate, request);
  }
  misses_.fetch_add(1, std::memory_order_relaxed);
  const Specialization &closest = *list[nearest.index];
  const std::string at = text(closest.signature);
  std::string message = fmt::format("{}: none of {} graph{} serves this call.", name(), list.size(),
                                    list.size() == 1 ? "" : "s");
  for (const Difference &d : nearest.differences)
    message += "\n  why      " + report::contrast(d);
  message += fmt::format("\n  call     {}\n  nearest  {}", own, at);
  sink_.on(FailEvent{core_.counters(), {}, "SignatureError: " + message, false});
  Difference first;
  if (!nearest.differences.empty())
    first = nearest.differences.front();
  throw SignatureError(message, first.path, first.before, first.after, at);
}

void Loaded::warm_up(bool inference) {
  for (const auto &specialization : *core_.cache().list()) {
    const Signature &signature = specialization->signature;
    if (signature.relaxed() || !signature.values.empty())
      continue;
    torch::jit::Stack stack;
    for (const TensorMeta &meta : signature.slots) {
      at::Tensor zeros = at::zeros(meta.sizes, at::TensorOptions(meta.device).dtype(meta.dtype));
      stack.emplace_back(
          meta.strides.empty() || meta.contiguous
              ? zeros
              : at::empty_strided(meta.sizes, meta.strides, zeros.options()).zero_());
    }
    for (const at::Tensor &capture : state_of(*specialization).captures)
      stack.emplace_back(capture);
    Bound none;
    Call(*this, none, inference).execute(*specialization, stack);
  }
}

std::vector<std::string> Loaded::signatures() const {
  std::vector<std::string> result;
  for (const auto &specialization : *const_cast<FunctionCore &>(core_).cache().list())
    result.push_back(text(specialization->signature));
  return result;
}

Stats Loaded::stats() const {
  const Counters &counters = *core_.counters();
  return {.hits = counters.hits.load(std::memory_order_relaxed),
          .misses = misses_.load(std::memory_order_relaxed),
          .traces = counters.traces.load(std::memory_order_relaxed),
          .specializations = counters.live.load(std::memory_order_relaxed)};
}

} // namespace tracehost::runtime
