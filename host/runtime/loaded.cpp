#include "runtime/loaded.h"

#include "archive/compare.h"
#include "program/checks.h"
#include "program/ops.h"
#include "report/contrast.h"
#include "runtime/describe.h"
#include "runtime/ending.h"
#include "runtime/log.h"
#include "runtime/op_error.h"
#include "tape/operands.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

namespace tracehost::runtime {
namespace {

/// Keeps the thread's modes, on an exception, too.
void execute(const Specialization &specialization, const std::string &name, bool inference,
             Operands &operands) {
  const Program &program = *specialization.program;
  try {
    if (inference && !program.runs_engine()) {
      const c10::InferenceMode on; // restores grad mode, too
      program.run(operands);
      return;
    }
    const bool grad = at::GradMode::is_enabled();
    program.run(operands);
    if (at::GradMode::is_enabled() != grad) [[unlikely]] // a region of the body ends in its own
      at::GradMode::set_enabled(grad);
  } catch (const Raised &e) {
    std::string type = e.type();
    std::replace(type.begin(), type.end(), ':', '.');
    if (type.starts_with("builtins."))
      type.erase(0, 9);
    throw PythonError(std::move(type), e.what(), {});
  } catch (const CheckFailed &) { // another graph may serve
    throw;
  } catch (const std::exception &) {
    throw_op_error(name);
  }
}

constexpr std::size_t kShownOfHash = 8;

std::shared_ptr<Counters> counters_of(const archive::Entry &entry, const std::string &path,
                                      const std::string &hash) {
  if (entry.specializations.empty())
    throw ArchiveError(fmt::format("{}: function '{}' has no graphs", path, entry.name));
  auto made = std::make_shared<Counters>();
  made->identity = {.name = entry.name,
                    .definition = {path, 0},
                    .site_key = std::hash<std::string>()(path + '\n' + hash + '\n' + entry.name),
                    .archive = hash.substr(hash.find(':') + 1, kShownOfHash)};
  made->live = entry.specializations.size();
  return made;
}

} // namespace

/// A call of C++ values.
class ValueCall final : public Call {
public:
  ValueCall(const Binder &binder, const Bound &bound, const Counters &counters, bool inference)
      : Call(Context::now(), inference), binder_(binder), bound_(bound), counters_(counters) {}

  bool matches(const Signature &signature, bool requires_grad, Slots &slots) const override {
    return runtime::matches(signature, binder_, bound_, requires_grad, slots);
  }
  void run(const Specialization &graph, Operands &operands) const override {
    execute(graph, counters_.identity.name, inference_, operands);
    const auto hits = counters_.hits.load(std::memory_order_relaxed);
    if ((hits & (hits - 1)) == 0) [[unlikely]] // 0, 1, 2, 4 ...: ops make statics
      watch_exit();
  }
  Signature signature(const Signature &guide, std::vector<at::Tensor> &slots) const override {
    return signature_like(guide, binder_, bound_, slots);
  }
  std::optional<FieldMisfit> misfit(const Signature &signature) const override {
    return misfit_of_fields(signature, binder_, bound_);
  }

private:
  const Binder &binder_;
  const Bound &bound_;
  const Counters &counters_;
};

Call::Call(Context context, bool inference) : inference_(inference), context_(context) {
  if (inference)
    context_.grad = false;
}

template <class C> bool Loaded::fits(C &call, const Specialization &specialization) {
  if (std::find(call.failed_.begin(), call.failed_.end(), &specialization) != call.failed_.end())
      [[unlikely]]
    return false;
  const Signature &signature = specialization.signature;
  const Context &made = signature.context;
  const Slots &slots = call.slots_;
  if (archive::as_compared(specialization, call.context_, call.inference_) != made ||
      (call.exact_ && made.grad != call.context_.grad) ||
      !call.matches(signature, call.exact_, call.slots_))
    return false;
  const auto input = [&](std::uint32_t index) -> const at::Tensor & {
    return index < slots.size() ? *slots[index]
                                : archive::state(specialization).captures[index - slots.size()];
  };
  return conditions_hold(signature, input) && reads_hold(signature, slots.size(), input);
}

Loaded::Loaded(const archive::Entry &entry, const std::string &path, Sink &sink,
               const std::string &hash)
    : Loaded(entry, counters_of(entry, path, hash), sink) {
  sink_.created(counters_);
}

Loaded::Loaded(const archive::Entry &entry, std::shared_ptr<Counters> counters, Sink &sink)
    : binder_(entry.name, entry.parameters, entry.defaults), counters_(std::move(counters)),
      sink_(sink) {
  Cache cache(entry.specializations.size());
  const Signature &first = entry.specializations.front()->signature;
  std::uint64_t number = 0;
  for (const SpecializationRef &s : entry.specializations) {
    by_gradients_ |= s->signature.context.grad != first.context.grad;
    for (const TensorMeta &slot : s->signature.slots)
      by_gradients_ |= slot.requires_grad;
    s->number = ++number;
    cache.publish(s);
  }
  graphs_ = cache.list();
}

void Loaded::bind(std::span<const Argument> arguments, Bound &bound) {
  try {
    binder_.bind(arguments, bound);
  } catch (const SignatureError &) {
    count_rejection();
    throw;
  }
}

Value Loaded::call(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  bind(arguments, bound);
  ValueCall call(binder_, bound, *counters_, inference);
  if (auto result = value(call)) [[likely]]
    return std::move(*result);
  const SignatureError error = rejection(call);
  if (const auto rejected = counters_->rejected.load(std::memory_order_relaxed);
      is_reported(rejected))
    log(LogLevel::warning, name(), error.what());
  sink_.on(FailEvent{counters_, {}, std::string("SignatureError: ") + error.what(), false, true});
  throw error;
}

std::optional<Value> Loaded::served(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  bind(arguments, bound);
  ValueCall call(binder_, bound, *counters_, inference);
  return value(call);
}

std::optional<Value> Loaded::value(ValueCall &call) {
  PooledOperands operands;
  if (const Specialization *graph = run(call, *operands)) [[likely]]
    return value_of(graph->outputs.nodes, (*operands).own());
  return std::nullopt;
}

template <class C> const Specialization *Loaded::run(C &call, Operands &operands) {
  call.exact_ = by_gradients_;
  for (;;) {
    const Specialization *graph = find(call);
    if (!graph && call.exact_) [[unlikely]] {
      call.exact_ = false; // an op finds out by itself
      graph = find(call);
    }
    if (!graph) [[unlikely]]
      return nullptr;
    operands.clear();
    for (const at::Tensor *t : call.slots_)
      operands.lend(*t);
    for (const at::Tensor &capture : archive::state(*graph).captures)
      operands.lend(capture);
    try {
      call.run(*graph, operands);
    } catch (const CheckFailed &check) { // the graph for another number may serve
      call.failed_.push_back(graph);
      call.found_ = check.found();
      call.why_ = told(check);
      continue;
    } catch (...) {
      const auto failed = counters_->failed.fetch_add(1, std::memory_order_relaxed) + 1;
      if (is_reported(failed) && logs())
        log_failure(failed);
      throw;
    }
    counters_->hits.fetch_add(1, std::memory_order_relaxed);
    return graph;
  }
}

/// Of the exception that is being handled.
void Loaded::log_failure(std::uint64_t number) const {
  log(LogLevel::warning, name(),
      fmt::format("{}: a call has failed ({} so far): {}", name(), number, text_of_exception()));
}

template <class C> const Specialization *Loaded::find(C &call) {
  const std::size_t last = last_.load(std::memory_order_relaxed);
  const auto asked = [&](const Specialization &one) { return fits(call, one); };
  const std::size_t found =
      call.found_ ? graphs_->find(*call.found_, asked) : graphs_->find(last, asked);
  if (found == graphs_->size()) [[unlikely]]
    return nullptr;
  if (found != last)
    last_.store(found, std::memory_order_relaxed);
  return (*graphs_)[found].get();
}

const Specialization *Loaded::serve(Call &call, Operands &operands) { return run(call, operands); }

SignatureError Loaded::rejection(const Call &call) {
  Nearest nearest;
  std::string own;
  const auto list = graphs_->by_age();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!call.failed_.empty() && call.failed_.back() != list[i].get())
      continue; // why_ is of that one
    std::vector<at::Tensor> tensors;
    Signature request = call.signature(list[i]->signature, tensors);
    own = text(request);
    request.context = call.context_;
    nearest.consider(i, list[i]->signature,
                     archive::seen_from(*list[i], std::move(request), tensors, call.inference_));
  }
  count_rejection();
  const Specialization &closest = *list[nearest.index];
  const std::string at = text(closest.signature);
  std::string message = fmt::format("{}: none of {} graph{} serves this call.", name(), list.size(),
                                    list.size() == 1 ? "" : "s");
  if (!call.why_.empty())
    message += "\n  why      " + call.why_;
  const auto misfit = call.misfit(closest.signature);
  if (misfit)
    message += "\n  why      " + misfit->text;
  for (const Difference &d : nearest.differences)
    if (!misfit || d.path != misfit->path)
      message += "\n  why      " + report::contrast(d);
  message += fmt::format("\n  call     {}\n  nearest  {}", own, at);
  // The graph may write to one of them, which the other must not notice.
  if (!misfit && nearest.differences.size() == 1 &&
      nearest.differences.front().cause == Cause::alias &&
      nearest.differences.front().after.starts_with("the same tensor"))
    message += fmt::format("\n  fix      pass {}.clone()", nearest.differences.front().path);
  if (misfit)
    return {message, misfit->path, misfit->expected, misfit->got, at};
  Difference first;
  if (!nearest.differences.empty())
    first = nearest.differences.front();
  return {message, first.path, first.before, first.after, at};
}

void Loaded::warm_up(bool inference) {
  for (const auto &specialization : *graphs_) {
    const Signature &signature = specialization->signature;
    if (signature.is_dynamic() || !signature.checked.empty())
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
    Operands operands(std::move(stack));
    execute(*specialization, name(), inference, operands);
  }
}

std::vector<std::string> Loaded::signatures() const {
  std::vector<std::string> result;
  for (const auto &specialization : *graphs_)
    result.push_back(text(specialization->signature));
  return result;
}

std::vector<GraphSpec> Loaded::graphs() const {
  std::vector<GraphSpec> result;
  for (const auto &specialization : *graphs_)
    result.push_back(spec_of(*specialization));
  return result;
}

std::vector<Parameter> Loaded::parameters() const { return parameters_of(binder_); }

Stats Loaded::stats() const {
  return {.hits = counters_->hits.load(std::memory_order_relaxed),
          .misses = counters_->rejected.load(std::memory_order_relaxed),
          .traces = 0,
          .specializations = graphs_->size(),
          .failures = counters_->failed.load(std::memory_order_relaxed)};
}

} // namespace tracehost::runtime
