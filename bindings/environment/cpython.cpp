#include "environment/cpython.h"

namespace tracehost::python {

namespace {

/// The interpreter's frame, as far as we read it; its layout is fixed within a minor version.
struct FrameObject {
  PyObject_HEAD PyFrameObject *back;
  PyObject *const *frame; ///< _PyInterpreterFrame
};

/// Where the function lies in a _PyInterpreterFrame. 3.11: first. 3.12, 3.13: code, previous frame,
/// function.
constexpr int kFunctionWord = PY_VERSION_HEX < 0x030C0000 ? 0 : 2;

/// Whether an object and its `__dict__` may have their values in common. A store to the object then
/// leaves the dict's version as it is. Up to 3.12 the dict takes the values over.
constexpr bool kCommonValues = PY_VERSION_HEX >= 0x030D0000;

} // namespace

PyObject *function_of(PyFrameObject *frame) {
  PyObject *const *inner = reinterpret_cast<FrameObject *>(frame)->frame;
  PyObject *function = inner ? inner[kFunctionWord] : nullptr;
  return function && PyFunction_Check(function) ? function : nullptr;
}

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
