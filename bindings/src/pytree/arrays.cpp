#include "pytree/arrays.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"

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
    forget_error();
  return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject *>(found) : nullptr;
}

/// Null while the program has not imported numpy.
const Numpy *numpy() {
  static constinit const Numpy *made = nullptr; // guarded by the GIL
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
  const Owned module = checked(PyImport_ImportModule("tracehost._arguments.arrays"));
  return checked(PyObject_CallMethod(module.get(), "tensor_of", "O", array)).release();
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

bool is_constant_scalar(PyObject *object) {
  const Numpy *types = numpy(); // a numpy.void is a view of some memory
  return types && PyType_IsSubtype(Py_TYPE(object), types->scalar) &&
         std::strcmp(Py_TYPE(object)->tp_name, "numpy.void") != 0 && is_array(object);
}

bool is_new_array(PyObject *object) {
  const Numpy *types = numpy();
  if (!types || Py_TYPE(object) != types->array)
    return false;
  const KeepError keep;
  const Owned dtype(PyObject_GetAttrString(object, "dtype"));
  const Owned holds(dtype ? PyObject_GetAttrString(dtype.get(), "hasobject") : nullptr);
  if (holds.get() != Py_False)
    return false;
  Owned base(PyObject_GetAttrString(object, "base"));
  while (base && base.get() != Py_None) {
    if (Py_TYPE(base.get()) != types->array || Py_REFCNT(base.get()) != 2) // the view's, and ours
      return false;
    base = Owned(PyObject_GetAttrString(base.get(), "base"));
  }
  return static_cast<bool>(base);
}

PyObject *copy_of_array(PyObject *array) { return PyObject_CallMethod(array, "copy", "s", "K"); }

bool same_array(PyObject *a, PyObject *b) {
  if (Py_TYPE(a) != Py_TYPE(b))
    return false;
  const KeepError keep;
  for (const char *name : {"dtype", "shape"}) {
    const Owned x(PyObject_GetAttrString(a, name)), y(PyObject_GetAttrString(b, name));
    if (!x || !y || PyObject_RichCompareBool(x.get(), y.get(), Py_EQ) != 1)
      return false;
  }
  const Owned x(PyObject_CallMethod(a, "tobytes", nullptr)),
      y(PyObject_CallMethod(b, "tobytes", nullptr));
  return x && y && PyObject_RichCompareBool(x.get(), y.get(), Py_EQ) == 1;
}

bool has_arrays() { return numpy() != nullptr; }

Rebuild tensors_for_arrays() {
  return Rebuild(
      [](PyObject *leaf) -> PyObject * { return is_array(leaf) ? tensor_of(leaf) : nullptr; });
}

Owned with_tensors(PyObject *value) {
  return has_arrays() ? tensors_for_arrays().value(value) : Owned(Py_NewRef(value));
}

} // namespace tracehost::python
