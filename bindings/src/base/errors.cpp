#include "base/errors.h"

#include "base/forget_error.h"
#include "base/lazy.h"
#include "program/ops.h"
#include "tracehost/error.h"

#include <torch/csrc/Exceptions.h>

#include <pybind11/pybind11.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace tracehost::python {

namespace py = pybind11;

const Errors &errors() {
  // Held for the process's life: exceptions may be raised until the interpreter ends.
  static constinit Lazy<Errors> found;
  return found([] {
    const py::module_ m = py::module_::import("tracehost._errors");
    const auto get = [&](const char *name) { return py::object(m.attr(name)).release().ptr(); };
    return Errors{
        get("Error"),        get("SignatureError"), get("ValueReadError"),    get("StagingError"),
        get("CaptureError"), get("TraceError"),     get("SideEffectWarning"), get("RetraceWarning"),
        get("TraceWarning"), get("ImpureSide"),     get("Interrupted")};
  });
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

namespace {

/// The exception that a staged `raise` or `assert` names.
void set_raised(const Raised &e) {
  const auto colon = e.type().find(':');
  try {
    if (!e.details().empty()) {
      const py::object error = py::module_::import("tracehost._traced.raised")
                                   .attr("made")(e.type(), e.what(), e.details());
      if (!error.is_none())
        return PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())), error.ptr());
    }
    py::object type = py::module_::import(e.type().substr(0, colon).c_str());
    for (std::size_t from = colon + 1; from <= e.type().size();) {
      const auto dot = std::min(e.type().find('.', from), e.type().size());
      type = type.attr(e.type().substr(from, dot - from).c_str());
      from = dot + 1;
    }
    const py::tuple args = *e.what() ? py::make_tuple(e.what()) : py::tuple();
    PyObject *made = PyObject_Call(type.ptr(), args.ptr(), nullptr);
    if (!made) { // an __init__ with other parameters: what matters is the type
      forget_error();
      made = type.attr("__new__")(type, *args).release().ptr();
    }
    PyErr_SetObject(type.ptr(), py::reinterpret_steal<py::object>(made).ptr());
  } catch (py::error_already_set &error) {
    forget_error(error);
    PyErr_Format(PyExc_RuntimeError, "%s: %s", e.type().c_str() + colon + 1, e.what());
  }
}

} // namespace

void set_from_current_exception() {
  // torch keeps its translation in macros that return: wrapped, so that a value comes out.
  const auto translate = []() -> PyObject * {
    HANDLE_TH_ERRORS
    try {
      throw;
    } catch (py::error_already_set &e) {
      e.restore();
    } catch (const Raised &e) {
      set_raised(e);
    } catch (const Interrupted &e) {
      PyErr_SetObject(errors().interrupted,
                      py::make_tuple(e.what(), static_cast<int>(e.code())).ptr());
    }
    return nullptr;
    END_HANDLE_TH_ERRORS
  };
  translate();
}

void forget_exception() {
  set_from_current_exception();
  forget_error();
}

bool is_exit_handled() {
  try {
    throw;
  } catch (const python_error &e) {
    return e.type &&
           (!PyErr_GivenExceptionMatches(e.type, PyExc_Exception) || passes_handler(e.traceback));
  } catch (const py::error_already_set &e) {
    return !e.matches(PyExc_Exception) || passes_handler(e.trace().ptr());
  } catch (...) {
    return false;
  }
}

void translate_exception(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (py::builtin_exception &) { // py::type_error
    throw;
  } catch (std::logic_error &) { // ValueError, IndexError
    throw;
  } catch (std::bad_alloc &) { // MemoryError
    throw;
  } catch (...) {
    set_from_current_exception();
  }
}

} // namespace tracehost::python
