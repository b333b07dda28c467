#pragma once

#include <Python.h>

namespace tracehost::python {

/// In place of PyErr_Clear(), where an error of Python's is dropped. Ctrl-C may come in any Python
/// code that is called on the way: it is raised again at the next line of Python. Requires: GIL
/// held.
inline void forget_error() {
  const bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
  PyErr_Clear();
  if (interrupted)
    PyErr_SetInterrupt();
}

} // namespace tracehost::python
