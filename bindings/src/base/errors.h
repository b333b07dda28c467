#pragma once

#include <Python.h>

#include <exception>
#include <string>

/// tracehost's Python exceptions. Requires for all: GIL held.

namespace tracehost::python {

/// The classes of `tracehost._errors`; borrowed, alive while the module is.
struct Errors {
  PyObject *base;          ///< Error
  PyObject *signature;     ///< SignatureError(TypeError)
  PyObject *value_read;    ///< ValueReadError(TypeError)
  PyObject *staging;       ///< StagingError
  PyObject *capture;       ///< CaptureError
  PyObject *trace;         ///< TraceError
  PyObject *side_effect;   ///< SideEffectWarning
  PyObject *retrace;       ///< RetraceWarning
  PyObject *trace_warning; ///< TraceWarning
  PyObject *impure_side;   ///< ImpureSide(BaseException), which no user sees
  PyObject *interrupted;   ///< Interrupted(BaseException), which no user sees
};
const Errors &errors();

/// Sets the Python error and throws it as torch's python_error, which passes through torch's
/// bindings.
[[noreturn]] void raise(PyObject *type, const std::string &message);
/// Throws the Python error that is set.
[[noreturn]] void rethrow();
/// Whether the C++ exception being handled is one of Python's that ends the caller. No `except
/// Exception` catches it (Ctrl-C, an exit), or a signal's handler has raised it.
bool is_exit_handled();
/// Turns the C++ exception being handled into a Python error, as torch's own bindings do.
void set_from_current_exception();
/// In place of a `catch` that drops the C++ exception being handled: see forget_error().
void forget_exception();
/// The same for functions of the module. What pybind11 itself translates is left to it.
void translate_exception(std::exception_ptr thrown);

} // namespace tracehost::python
