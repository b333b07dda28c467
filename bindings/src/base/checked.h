#pragma once

#include "base/errors.h"
#include "base/object.h"

#include <Python.h>

/// Results of Python's C functions, and the error that they set. Requires for all: GIL held.

namespace tracehost::python {

/// A reference to `made`, which it steals. Throws the Python error that is set if it is null.
inline Owned checked(PyObject *made) {
  if (!made)
    rethrow();
  return Owned(made);
}

/// The error that is set, with its traceback; it is set no longer. Null: none was.
inline Owned take_error() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && traceback)
    PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Owned(value);
}

/// Sets an error that was taken.
inline void set_error(Owned error) {
  PyObject *value = error.release();
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject *>(Py_TYPE(value))), value,
                PyException_GetTraceback(value));
}

} // namespace tracehost::python
