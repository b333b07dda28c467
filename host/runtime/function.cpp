#include "tracehost/function.h"

#include "program/interruption.h"
#include "runtime/callable.h"
#include "runtime/ending.h"
#include "runtime/signature_text.h"

#include <ATen/Parallel.h>

namespace tracehost {
inline namespace TRACEHOST_ABI {
namespace {

detail::Callable &of(const std::shared_ptr<detail::Callable> &callable) {
  if (!callable)
    throw Error(
        "this tracehost::Function is empty. Assign it a function of a tracehost::Archive first.");
  return *callable;
}

RunLimits limits_of(const std::shared_ptr<const RunLimits> &given) {
  return given ? *given : RunLimits();
}

/// What ends a call does not know its name.
template <class F> auto with_name(const Function &function, const F &call) {
  try {
    return call();
  } catch (const Interrupted &e) {
    throw Interrupted(e.code(), e.may_have_written(), function.name());
  }
}

} // namespace

Argument kw(std::string name, Value value) {
  if (name.empty())
    throw Error(
        "kw(\"\", " + text(value) +
        "): the name of an argument is empty. Give the parameter's name, or the value alone.");
  return {std::move(name), std::move(value)};
}

Value Function::run(std::span<const Argument> arguments) const {
  const runtime::Running call;
  const Interruptible until_asked(limits_.get());
  return with_name(*this, [&] {
    if (limits_) [[unlikely]]
      Interruptible::check_before();
    return of(callable_).call(arguments, inference_);
  });
}

Function Function::with_stop(std::stop_token stop) const {
  Function result = *this;
  RunLimits limits = limits_of(limits_);
  limits.stop = std::move(stop);
  result.limits_ = std::make_shared<RunLimits>(std::move(limits));
  return result;
}

Function Function::with_deadline(std::chrono::steady_clock::time_point deadline) const {
  Function result = *this;
  RunLimits limits = limits_of(limits_);
  limits.deadline = deadline;
  result.limits_ = std::make_shared<RunLimits>(std::move(limits));
  return result;
}

Function Function::with_inference_mode(bool on) const {
  Function told = *this;
  told.inference_ = on;
  return told;
}

void Function::warm_up(const std::vector<std::string> &signatures) const {
  const runtime::Running call;
  const Interruptible until_asked(limits_.get());
  if (signatures.empty())
    with_name(*this, [&] { of(callable_).warm_up(inference_); });
  for (const std::string &signature : signatures)
    run(runtime::zeros(signature));
}

void Function::refresh() const { of(callable_).refresh(); }

const std::string &Function::name() const { return of(callable_).name(); }
std::vector<std::string> Function::signatures() const { return of(callable_).signatures(); }
std::vector<GraphSpec> Function::graphs() const { return of(callable_).graphs(); }
std::vector<Parameter> Function::parameters() const { return of(callable_).parameters(); }
Stats Function::stats() const { return of(callable_).stats(); }

void interrupt() noexcept { interrupt_runs(); }

namespace detail {

Callable::~Callable() = default;

void launch(std::function<void()> task) { at::launch(std::move(task)); }

} // namespace detail
} // namespace TRACEHOST_ABI
} // namespace tracehost
