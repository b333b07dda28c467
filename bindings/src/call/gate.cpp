#include "call/gate.h"

#include "base/errors.h"
#include "base/object.h"
#include "call/python_trace.h"
#include "call/retraces.h"
#include "report/contrast.h"
#include "report/history.h"
#include "report/ledger.h"

#include <atomic>

namespace tracehost::python {
namespace {

namespace py = pybind11;

std::atomic<PyObject *> check{nullptr}; ///< Gate.check, kept by the process; null: no lock

/// What differs from the nearest graph; empty: there is none.
py::str differs_by(PythonFunction &function, PythonCall &call) {
  const auto explained = function.core->explain(call);
  return text_of(explained.nearest ? report::contrast(explained.differences) : std::string());
}

} // namespace

void ask_gate(PythonFunction &function, PythonCall &call, const Signature &signature) {
  const py::handle gate = check.load(std::memory_order_acquire);
  if (!gate)
    return;
  const Counters &counters = *function.core->counters();
  const Identity &identity = counters.identity;
  const py::cpp_function differs([&] { return differs_by(function, call); });
  const py::object answer = gate(
      py::arg("object") = counters.number, py::arg("qualified") = text_of(identity.qualified),
      py::arg("name") = text_of(identity.name), py::arg("file") = text_of(identity.definition.file),
      py::arg("function") = text_of(function.name),
      py::arg("call") = text_of(text(call.session().caller())),
      py::arg("lock") = text_of(report::shortened(call_text(signature))),
      py::arg("differs") = differs);
  if (answer.is_none())
    return;
  call.is_forbidden = true;
  const Owned message(PyUnicode_AsEncodedString(answer.ptr(), "utf-8", "backslashreplace"));
  if (!message)
    rethrow();
  const std::string text = PyBytes_AS_STRING(message.get());
  report::ledger().on(
      FailEvent{function.core->counters(), call.session().caller(), "TraceError: " + text});
  raise(errors().trace, text);
}

void add_gate(py::module_ &m) {
  m.def("close_gate", [](py::object asked) { check = asked.release().ptr(); });
}

} // namespace tracehost::python
