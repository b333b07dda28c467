#include "errors.h"

#include <torch/csrc/Exceptions.h>

#include <pybind11/pybind11.h>

namespace tracehost::python {

namespace py = pybind11;

const Errors &errors() {
  // Held for the process's life: exceptions may be raised until the interpreter ends.
  static const Errors *found = [] {
    const py::module_ m = py::module_::import("tracehost._errors");
    const auto get = [&](const char *name) { return py::object(m.attr(name)).release().ptr(); };
    return new Errors{get("Error"),          get("SignatureError"), get("ValueReadError"),
                      get("CaptureError"),   get("TraceError"),     get("SideEffectWarning"),
                      get("RetraceWarning"), get("TraceWarning")};
  }();
  return *found;
}

void raise(PyObject *type, const std::string &message) {
  PyErr_SetString(type, message.c_str());
  rethrow();
}

void rethrow() {
  python_error e;
  e.persist();
  throw python_error(e);
}

void set_from_current_exception() {
  // torch keeps its translation in macros that return: wrapped, so that a value comes out.
  const auto translate = []() -> PyObject * {
    HANDLE_TH_ERRORS
    try {
      throw;
    } catch (py::error_already_set &e) {
      e.restore();
    }
    return nullptr;
    END_HANDLE_TH_ERRORS
  };
  translate();
}

} // namespace tracehost::python
