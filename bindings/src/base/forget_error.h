#pragma once

#include <pybind11/pybind11.h>

/// Errors of Python's that are dropped, and those of signals among them, which must not be.
///
/// Problem: tracehost asks Python code on its way, and drops what that raises. A signal's handler
/// may run in just that code: Ctrl-C, or an alarm whose handler raises TimeoutError. Answer: what a
/// handler has raised is raised again by the main thread, a few instructions of Python later.

namespace tracehost::python {

/// Whether a signal's handler has raised the exception: one of its frames has been called with the
/// signal's number and the frame that it interrupts. Requires: GIL held.
bool is_of_signal(PyObject *error);
/// The same by the exception's traceback; null: it has none.
bool passes_handler(PyObject *traceback);

/// For errors that are set.
void forget_set_error();

/// In place of PyErr_Clear(), where an error of Python's is dropped. Requires: GIL held.
inline void forget_error() {
  if (PyErr_Occurred()) [[unlikely]]
    forget_set_error();
}

/// While one lives, no error of a signal is raised again. For calls of CPython that Python code
/// ends, such as an audit hook. Requires: GIL held.
class SignalsLater {
public:
  SignalsLater();
  ~SignalsLater();
  /// The error that waits, for a caller that can raise it at once: strong, or null.
  static PyObject *take();
  SignalsLater(const SignalsLater &) = delete;
  SignalsLater &operator=(const SignalsLater &) = delete;
};

/// The same of an exception that has left Python. Requires: GIL held.
inline void forget_error(pybind11::error_already_set &error) {
  error.restore();
  forget_error();
}

} // namespace tracehost::python
