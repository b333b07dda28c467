#include "runtime/loaded.h"

#include "archive/compare.h"
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

struct GivenSizes final : SizeSource {
  explicit GivenSizes(const Slots &slots) : slots(slots) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    return slots[static_cast<std::size_t>(slot)]->size(dimension);
  }
  const Slots &slots;
};

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
                                 : archive::state(specialization).captures[index - slots_.size()];
  }

  const Loaded &function_;
  const Bound &bound_;
  const bool inference_;
  Slots slots_;
};

bool Loaded::Call::verify(Specialization &specialization, Request &, torch::jit::Stack &stack) {
  const Signature &signature = specialization.signature;
  const Context &made = signature.context;
  if (archive::as_compared(specialization, request.context, inference_) != made ||
      (exact && made.grad != request.context.grad) ||
      !matches(signature, function_.binder_, bound_, exact, slots_))
    return false;
  for (const SizeCondition &condition : signature.conditions)
    if (!holds(condition, GivenSizes(slots_)))
      return false;
  if (!archive::reads_hold(signature, [&](std::uint32_t index) -> const at::Tensor & {
        return input(specialization, index);
      }))
    return false;
  for (const at::Tensor *t : slots_)
    stack.emplace_back(*t);
  for (const at::Tensor &capture : archive::state(specialization).captures)
    stack.emplace_back(capture);
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
    refuse(bound, inference);
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

void Loaded::refuse(const Bound &bound, bool inference) {
  Nearest nearest;
  std::string own;
  const auto list = core_.cache().list()->by_age();
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<at::Tensor> tensors;
    Signature request = signature_like(list[i]->signature, binder_, bound, tensors);
    own = text(request);
    request.context = Context::now();
    nearest.consider(i, list[i]->signature,
                     archive::seen_from(*list[i], std::move(request), tensors, inference));
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
    for (const at::Tensor &capture : archive::state(*specialization).captures)
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
