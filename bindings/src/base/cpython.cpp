#include "base/cpython.h"

namespace tracehost::python {

namespace {

/// Whether an object and its `__dict__` may have their values in common. A store to the object then
/// leaves the dict's version as it is. Up to 3.12 the dict takes the values over.
constexpr bool kCommonValues = PY_VERSION_HEX >= 0x030D0000;

} // namespace

PyObject *instance_dict(PyObject *object) {
  PyObject **at = _PyObject_GetDictPtr(object);
  return at ? *at : nullptr;
}

bool keep_version(PyObject *dict) {
  if (!kCommonValues || !reinterpret_cast<PyDictObject *>(dict)->ma_values)
    return true;
  // Keys of such a dict are str. Another one, for a moment, makes it a dict with values of its own.
  if (PyDict_SetItem(dict, Py_None, Py_None) == 0 && PyDict_DelItem(dict, Py_None) == 0)
    return true;
  PyErr_Clear();
  return false;
}

} // namespace tracehost::python
