#include "call/gate.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/lazy.h"
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

std::atomic<bool> gate_is_closed{false}; ///< close_gate() was called

py::handle frozen_check() {
  static constinit Lazy<PyObject *> check;
  return check([] {
    const Owned module = checked(PyImport_ImportModule("tracehost._reports.frozen"));
    return checked(PyObject_GetAttrString(module.get(), "check")).release();
  });
}

/// What differs from the nearest graph; empty: there is none.
py::str differs_by(PythonFunction &function, PythonCall &call) {
  const auto explained = function.core->explain(call);
  return text_of(explained.nearest ? report::contrast(explained.differences) : std::string());
}

} // namespace

void ask_gate(PythonFunction &function, PythonCall &call, const Signature &signature) {
  if (!gate_is_closed.load(std::memory_order_relaxed))
    return;
  const Counters &counters = *function.core->counters();
  const Identity &identity = counters.identity;
  const py::cpp_function differs([&] { return differs_by(function, call); });
  const py::object answer = frozen_check()(
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
  m.def("close_gate", [] { gate_is_closed = true; });
}

} // namespace tracehost::python
