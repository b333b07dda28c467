#include "call/cold_calls.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "call/function_type.h"
#include "call/plain_calls.h"
#include "call/python_trace.h"
#include "call/retraces.h"
#include "report/contrast.h"
#include "report/ledger.h"
#include "trace/tracer.h"

#include <torch/csrc/Exceptions.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

namespace tracehost::python {
namespace {

/// Warns that the trace was unsupported, and that the body ran to its end without a graph. Of
/// values that have no graph it warns once for each place. A trace for more than the call needs no
/// warning: the next such call is traced as it is.
bool warn_went_on(PythonFunction &f, const PythonCall &call) {
  const bool limit = call.abandoned && call.abandoned->why == trace::Rejection::limit;
  const bool value = limit || !call.failed.empty();
  if (!value && call.wider)
    return true;
  const std::string &place = call.abandoned ? call.abandoned->where : call.rejection;
  if (value && !f.warned.insert("value " + place).second)
    return true;
  const std::string message =
      fmt::format("{} has no graph for {}, and runs as plain Python: {}", f.name,
                  value ? "some values" : "this signature", call.rejection);
  return PyErr_WarnEx(errors().trace_warning, message.c_str(), 1) == 0;
}

/// stance("fail_on_miss"): says what the call would have to be.
[[noreturn]] void reject_miss(PythonFunction &f, PythonCall &call) {
  const auto explained = f.core->explain(call);
  const std::string what = !call.failed_check.empty() ? "Of one that would, " + call.failed_check
                           : explained.served         ? "One that would was made just now"
                           : explained.nearest ? "From the nearest specialization it differs so: " +
                                                     report::contrast(explained.differences)
                                               : "The function has no specialization yet";
  const std::string message =
      fmt::format("no specialization of {} serves this call, and the "
                  "stance 'fail_on_miss' (no_retrace) does not allow tracing. {}. "
                  "Call the function with such arguments before you set this "
                  "stance, or allow tracing with tracehost.stance('default').",
                  f.name, what);
  report::ledger().on(
      FailEvent{f.core->counters(), call.session().caller(), "TraceError: " + message});
  raise(errors().trace, message);
}

} // namespace

/// An exception of Python's comes from code that the graph has called, which has run: a hook, a
/// handler of a signal.
bool PythonCall::runs_instead(const std::exception_ptr &error) {
  try {
    std::rethrow_exception(error);
  } catch (const python_error &) {
    return false;
  } catch (const pybind11::error_already_set &) {
    return false;
  } catch (...) {
    return true;
  }
}

PyObject *call_eagerly(PythonFunction &f, const Arguments &a) {
  f.core->counters()->eager.fetch_add(1, std::memory_order_relaxed);
  return PyObject_Vectorcall(f.callable.get(), a.args, a.nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET,
                             a.kwnames);
}

PyObject *call_inlined(PythonFunction &f, const Arguments &a) {
  if (trace::abandoned())
    return call_eagerly(f, a);
  PythonCall call(f, a.args, a.nargsf, a.kwnames);
  if (!call.bind())
    return nullptr;
  call.session().adapt();
  if (trace::recording() && is_being_traced(f)) {
    call.context = Context::now();
    try {
      if (is_being_traced(f, call.trace().signature()))
        trace::reject(
            trace::Rejection::trace,
            fmt::format(
                "{} calls itself with the signature that is being traced: the graph would have "
                "no end. Recur on a Python value that changes, or call its python_function.",
                f.name));
    } catch (const trace::Abandoned &) {
      return call_eagerly(f, a);
    }
  }
  f.core->counters()->inlined.fetch_add(1, std::memory_order_relaxed);
  return call.call_body();
}

PyObject *call_missed(PythonFunction &f, PythonCall &call, FunctionCore::Outcome outcome) {
  if (outcome == FunctionCore::Outcome::undone) {
    const std::string where = Program::take_failed_at();
    PyObject *result = call.call_body();
    auto &counter = result ? f.core->counters()->eager : f.core->counters()->failed;
    counter.fetch_add(1, std::memory_order_relaxed);
    if (!result)
      note_failed_op(f.name, where);
    return result;
  }
  if (outcome == FunctionCore::Outcome::unserved) {
    if (call.stance == Stance::fail_on_miss)
      reject_miss(f, call);
    f.core->counters()->eager.fetch_add(1, std::memory_order_relaxed);
    return call.call_body();
  }
  Owned result(call.trace().take_result());
  f.drop_evicted();
  const bool warned = call.mismatch                              ? call.trace().warn_mismatch()
                      : outcome == FunctionCore::Outcome::beside ? true
                      : outcome == FunctionCore::Outcome::traced
                          ? call.trace().warn() && warn_retraces(f) && call.trace().warn_skips()
                          : warn_went_on(f, call);
  return warned ? result.release() : nullptr;
}

PyObject *call_failed(PythonFunction &f, const PythonCall &call, const Arguments &a) {
  set_from_failed_run(f.name);
  if (!call.has_run() && PyErr_ExceptionMatches(errors().signature))
    f.core->counters()->rejected.fetch_add(1, std::memory_order_relaxed);
  // Arguments that can't be compared, or a mode that no graph honours. What does not fit a
  // declaration is the caller's mistake.
  if (call.stance == Stance::eager_on_error && !call.has_run() && !f.declaration &&
      !call.is_forbidden && PyErr_ExceptionMatches(errors().base)) {
    forget_error();
    return call_eagerly(f, a);
  }
  return nullptr;
}

PyObject *call_plainly(PythonFunction &f, const Arguments &a, const std::string &around) {
  if (!around.empty() && f.warned.insert("plain " + around).second) {
    const std::string message =
        fmt::format("{} runs as plain Python under {}, which needs the ops themselves. Calls "
                    "outside of that run graphs.",
                    f.name, around);
    if (PyErr_WarnEx(errors().trace_warning, message.c_str(), 1) != 0)
      return nullptr;
  }
  return call_eagerly(f, a);
}

PyObject *call_traced_ahead(PyObject *self, const Arguments &a) {
  PythonFunction &f = python_function(self);
  if (trace_ahead(self, a.args, a.nargsf, a.kwnames)) {
    const TracedAhead once(f);
    return call_function(self, a.args, a.nargsf, a.kwnames);
  }
  if (!PyErr_ExceptionMatches(errors().base))
    return nullptr;
  forget_error();
  return call_plainly(f, a, "torch.utils.checkpoint");
}

} // namespace tracehost::python
