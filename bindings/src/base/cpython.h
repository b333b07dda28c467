#pragma once

#include <Python.h>

/// What tracehost needs of the Python that it is built for.

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030F0000
#error "tracehost reads frames of Python, which it knows of 3.11 to 3.14"
#endif
#ifdef Py_GIL_DISABLED
#error "tracehost counts on the GIL: a Python without it is not supported"
#endif

namespace tracehost::python {

/// The dict of an object's attributes, made if the object has its values in itself; null if it has
/// none. Borrowed. Requires: GIL held.
inline PyObject *instance_dict(PyObject *object) {
  PyObject **at = _PyObject_GetDictPtr(object);
  return at ? *at : nullptr;
}

} // namespace tracehost::python
