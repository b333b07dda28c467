#include "runtime/loaded.h"

#include "archive/compare.h"
#include "program/ops.h"
#include "program/stack_pool.h"
#include "report/contrast.h"
#include "runtime/describe.h"
#include "runtime/ending.h"
#include "runtime/fields.h"
#include "runtime/walk.h"

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

struct GivenSizes final : SizeSource {
  explicit GivenSizes(const Slots &slots) : slots(slots) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    return slots[static_cast<std::size_t>(slot)]->size(dimension);
  }
  const Slots &slots;
};

/// The modes of the thread, as the graph will see them.
Context context_of_call(bool inference) {
  Context now = Context::now();
  if (inference)
    now.grad = false;
  return now;
}

/// Keeps the thread's modes, on an exception, too.
void execute(const Specialization &specialization, const std::string &name, bool inference,
             torch::jit::Stack &stack, Begun *begun = nullptr) {
  const Program &program = *specialization.program;
  try {
    if (inference && !program.runs_engine()) {
      const c10::InferenceMode on; // restores grad mode, too
      program.run(stack, begun);
      return;
    }
    const bool grad = at::GradMode::is_enabled();
    program.run(stack, begun);
    if (at::GradMode::is_enabled() != grad) [[unlikely]] // a region of the body ends in its own
      at::GradMode::set_enabled(grad);
  } catch (const Raised &e) {
    std::string type = e.type();
    std::replace(type.begin(), type.end(), ':', '.');
    if (type.starts_with("builtins."))
      type.erase(0, 9);
    throw PythonError(std::move(type), e.what(), {});
  } catch (c10::Error &e) {
    if (const auto where = Program::take_failed_at(); !where.empty())
      e.add_context(fmt::format("at {}, in {}", where, name));
    throw;
  }
}

} // namespace

/// One call, as it is compared with the graphs.
struct Loaded::Call {
  const Binder &binder;
  const Bound &bound;
  const Context context;
  const bool inference;
  bool exact = false;                                 ///< grad mode and requires_grad take part
  Slots slots;                                        ///< of the graph that was asked last
  c10::SmallVector<const Specialization *, 2> failed; ///< those that a check has ended
  std::shared_ptr<Begun> begun;                       ///< the run of the last of them
  std::string why;                                    ///< that check

  /// A check has ended its run, or would.
  bool has_failed(const Specialization &one) const {
    return std::find(failed.begin(), failed.end(), &one) != failed.end() ||
           (begun && one.program->start(*begun) == Program::Start::differs);
  }
  /// Hot. Whether it serves; then `slots` are its inputs before the captures.
  bool fits(const Specialization &specialization);
};

bool Loaded::Call::fits(const Specialization &specialization) {
  if (!failed.empty() && has_failed(specialization)) [[unlikely]]
    return false;
  const Signature &signature = specialization.signature;
  const Context &made = signature.context;
  if (archive::as_compared(specialization, context, inference) != made ||
      (exact && made.grad != context.grad) || !matches(signature, binder, bound, exact, slots))
    return false;
  for (const SizeCondition &condition : signature.conditions)
    if (!holds(condition, GivenSizes(slots)))
      return false;
  return archive::reads_hold(signature, [&](std::uint32_t index) -> const at::Tensor & {
    return index < slots.size() ? *slots[index]
                                : archive::state(specialization).captures[index - slots.size()];
  });
}

namespace {

constexpr std::size_t kShownOfHash = 8;

} // namespace

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
    counters_->refused.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

Value Loaded::call(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  bind(arguments, bound);
  std::string failed_check;
  auto result = run(bound, inference, failed_check);
  if (!result) [[unlikely]]
    refuse(bound, inference, failed_check);
  return std::move(*result);
}

std::optional<Value> Loaded::served(std::span<const Argument> arguments, bool inference) {
  Bound bound;
  bind(arguments, bound);
  std::string failed_check;
  return run(bound, inference, failed_check);
}

std::optional<Value> Loaded::run(const Bound &bound, bool inference, std::string &failed_check) {
  Call call{binder_, bound, context_of_call(inference), inference, by_gradients_, {}, {}, {}, {}};
  for (;;) {
    const Specialization *graph = serving(call);
    if (!graph && call.exact) [[unlikely]] {
      call.exact = false; // an op finds out by itself
      graph = serving(call);
    }
    if (!graph) [[unlikely]] {
      failed_check = std::move(call.why);
      return std::nullopt;
    }
    PooledStack stack;
    for (const at::Tensor *t : call.slots)
      (*stack).emplace_back(*t);
    for (const at::Tensor &capture : archive::state(*graph).captures)
      (*stack).emplace_back(capture);
    try {
      execute(*graph, name(), inference, *stack, call.begun.get());
    } catch (CheckFailed &check) { // the graph for another number may serve
      call.failed.push_back(graph);
      call.begun = check.take_begun();
      call.why = told(check, Program::take_failed_at());
      continue;
    } catch (...) {
      counters_->failed.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
    const auto before = counters_->hits.fetch_add(1, std::memory_order_relaxed);
    if ((before & (before - 1)) == 0) [[unlikely]] // 0, 1, 2, 4 ...: ops make statics
      watch_exit();
    return value_of(graph->outputs.nodes, *stack);
  }
}

const Specialization *Loaded::serving(Call &call) {
  const std::size_t last = last_.load(std::memory_order_relaxed);
  const std::size_t found =
      graphs_->find(last, [&](const Specialization &one) { return call.fits(one); });
  if (found == graphs_->size()) [[unlikely]]
    return nullptr;
  if (found != last)
    last_.store(found, std::memory_order_relaxed);
  return (*graphs_)[found].get();
}

void Loaded::refuse(const Bound &bound, bool inference, const std::string &failed_check) {
  Nearest nearest;
  std::string own;
  const auto list = graphs_->by_age();
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<at::Tensor> tensors;
    Signature request = signature_like(list[i]->signature, binder_, bound, tensors);
    own = text(request);
    request.context = Context::now();
    nearest.consider(i, list[i]->signature,
                     archive::seen_from(*list[i], std::move(request), tensors, inference));
  }
  counters_->refused.fetch_add(1, std::memory_order_relaxed);
  const Specialization &closest = *list[nearest.index];
  const std::string at = text(closest.signature);
  std::string message = fmt::format("{}: none of {} graph{} serves this call.", name(), list.size(),
                                    list.size() == 1 ? "" : "s");
  if (!failed_check.empty())
    message += "\n  why      " + failed_check;
  const auto misfit = misfit_of_fields(closest.signature, binder_, bound);
  if (misfit)
    message += "\n  why      " + misfit->text();
  for (const Difference &d : nearest.differences)
    if (!misfit || d.path != misfit->path)
      message += "\n  why      " + report::contrast(d);
  message += fmt::format("\n  call     {}\n  nearest  {}", own, at);
  sink_.on(FailEvent{counters_, {}, "SignatureError: " + message, false, true});
  if (misfit)
    throw SignatureError(message, misfit->path, misfit->expected, misfit->got, at);
  Difference first;
  if (!nearest.differences.empty())
    first = nearest.differences.front();
  throw SignatureError(message, first.path, first.before, first.after, at);
}

void Loaded::warm_up(bool inference) {
  for (const auto &specialization : *graphs_) {
    const Signature &signature = specialization->signature;
    if (signature.relaxed() || !signature.values.empty() || !signature.checked.empty())
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
    execute(*specialization, name(), inference, stack);
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
          .misses = counters_->refused.load(std::memory_order_relaxed),
          .traces = 0,
          .specializations = graphs_->size(),
          .failures = counters_->failed.load(std::memory_order_relaxed)};
}

} // namespace tracehost::runtime
