#include "call/python_trace.h"

#include "base/errors.h"
#include "base/user_line.h"
#include "function/negative_cache.h"
#include "report/contrast.h"

#include <fmt/format.h>

/// What a user is warned of after a trace, each thing once.

namespace tracehost::python {

namespace {

/// At the user's line that has called. The innermost frame may be torch's, which calls a module's
/// forward, or tracehost's own, as for a request.
bool warn_at_call(PyObject *category, const std::string &message) {
  const Site at = user_line();
  return (at.line ? PyErr_WarnExplicit(category, message.c_str(), at.file.c_str(), at.line, nullptr,
                                       nullptr)
                  : PyErr_WarnEx(category, message.c_str(), 1)) == 0;
}

} // namespace

bool PythonTrace::warn() {
  return warn_side_effects() &&
         warn_once(draws_, "draws ",
                   "{} uses {} at {} while it is traced: later calls draw nothing, and use "
                   "what was drawn then. Draw with torch (torch.rand, torch.randint), or "
                   "outside of the function, and pass the number as a tensor.") &&
         warn_once(edited_, "edited ",
                   "{} calls {} at {}, whose file has changed since it was imported: Python runs "
                   "what was imported, and the graph checks its conditions. Restart the program "
                   "to trace the new text.") &&
         warn_once(unknown_, "unknown ",
                   "{} calls {} at {}. Later calls do not: they use what it gave now, "
                   "because no guard can compare what that C code reads. Call it outside of the "
                   "function and pass the result, or call it in tracehost.py_function, which "
                   "runs at each call.") &&
         warn_once(caught_, "caught ",
                   "{} calls {} at {} in a `try` whose `except` may catch its error, but a later "
                   "call runs the graph, which raises it instead. Move the attempt out of "
                   "the function, or test the values first.");
}

/// A TraceWarning for each line at which the body did such a thing. `message`: with the places of
/// the Function, the thing and the line.
bool PythonTrace::warn_once(const std::vector<trace::NotedLine> &list, const std::string &kind,
                            std::string_view message) {
  for (const trace::NotedLine &one : list) {
    const std::string where = text(one.where);
    if (function_.warned.insert(kind + where).second &&
        !warn_at_call(errors().trace_warning,
                      fmt::format(fmt::runtime(message), function_.name, one.what, where)))
      return false;
  }
  return true;
}

bool PythonTrace::warn_mismatch() {
  if (!function_.warned.insert("wrong " + call_.mismatch->culprit).second)
    return true;
  const std::string op = call_.mismatch->culprit.empty()
                             ? std::string()
                             : fmt::format(" ({})", call_.mismatch->culprit);
  const std::string when =
      call_.mismatch->hits ? fmt::format("after {} hits, its graph does not do what the body does",
                                         call_.mismatch->hits)
                           : "its graph would not do what the body did";
  const std::string message = fmt::format(
      "{}: {}: {}{}. This call has the body's result, and from now on calls with its signature run "
      "as plain Python. If the result of the line depends on more than tensors and arguments, pass "
      "that in as a tensor or an argument: time, random numbers of Python or numpy, state that "
      "other code changes. If it does not, please report it.",
      function_.name, when, call_.mismatch->what, op);
  return warn_at_call(errors().trace_warning, message);
}

bool PythonTrace::warn_skips() {
  if (!call_.skips || !function_.warned.insert("skips").second)
    return true;
  const std::string &once = recorder_->once();
  const char *remedy = once.find("calls print()") != std::string::npos
                           ? "Write tracehost.print() there, which a graph calls"
                           : "Keep what changes in a tensor, or decorate the functions that the "
                             "body calls instead";
  const std::string message = fmt::format(
      "{}: the last {} traces for such arguments served no later call, so the next {} such calls "
      "run as plain Python. The reason of the last one: {}. {}.",
      function_.name, NegativeCache::kTraces, call_.skips,
      once.empty() ? report::contrast(call_.differing) : once, remedy);
  return warn_at_call(errors().trace_warning, message);
}

bool PythonTrace::warn_side_effects() {
  for (const SideEffect &e : side_effects_) {
    if (!function_.warned.insert("changes " + e.path).second)
      continue;
    const std::string where = e.where.line ? " at " + text(e.where) : "";
    const std::string message = fmt::format(
        "{} changes {}{} while it is traced; later calls run the graph and will not. Keep "
        "such state in a tensor that is updated in place, or change it outside of the function.",
        function_.name, e.path, where);
    if (!warn_at_call(errors().side_effect, message))
      return false;
  }
  return true;
}

} // namespace tracehost::python
