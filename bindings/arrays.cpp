#include "arrays.h"

#include "errors.h"

#include <fmt/format.h>

#include <cstring>

namespace tracehost::python {
namespace {

/// numpy's classes; on the heap and never freed, so that no Python object lives in a C++ static.
struct Numpy {
  PyTypeObject *array, *scalar;
};

PyTypeObject *class_of(PyObject *module, const char *name) {
  PyObject *found = PyObject_GetAttrString(module, name);
  if (!found)
    PyErr_Clear();
  return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject *>(found) : nullptr;
}

/// Null while the program has not imported numpy.
const Numpy *numpy() {
  static const Numpy *made = nullptr; // guarded by the GIL
  if (made)
    return made;
  const KeepError keep;
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy"); // borrowed
  if (!module)
    return nullptr;
  const Numpy found{class_of(module, "ndarray"), class_of(module, "generic")};
  if (found.array && found.scalar) // else it is being imported
    made = new Numpy(found);
  return made;
}

bool is_masked(PyTypeObject *type) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    const char *name = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i))->tp_name;
    const char *dot = std::strrchr(name, '.');
    if (std::strcmp(dot ? dot + 1 : name, "MaskedArray") == 0)
      return true;
  }
  return false;
}

PyObject *tensor_of(PyObject *array) {
  if (is_masked(Py_TYPE(array)))
    raise(errors().signature, "a tensor has no mask, which a numpy.ma.MaskedArray has. Pass "
                              "array.filled(value), or its data and its mask.");
  Owned module(PyImport_ImportModule("tracehost._arrays"));
  PyObject *tensor = module ? PyObject_CallMethod(module.get(), "tensor_of", "O", array) : nullptr;
  if (!tensor)
    rethrow();
  return tensor;
}

} // namespace

bool is_array(PyObject *object) {
  const Numpy *types = numpy();
  if (!types)
    return false;
  PyTypeObject *type = Py_TYPE(object);
  return PyType_IsSubtype(type, types->array) ||
         (PyType_IsSubtype(type, types->scalar) && !PyUnicode_Check(object) &&
          !PyBytes_Check(object));
}

bool has_arrays() { return numpy() != nullptr; }

Rebuild tensors_for_arrays() {
  return Rebuild(
      [](PyObject *leaf) -> PyObject * { return is_array(leaf) ? tensor_of(leaf) : nullptr; });
}

PyObject *with_tensors(PyObject *value, bool &changed) {
  Rebuild rebuild = tensors_for_arrays();
  Owned result = rebuild.value(value);
  changed |= rebuild.changed();
  return result.release();
}

} // namespace tracehost::python
