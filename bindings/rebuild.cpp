#include "rebuild.h"

#include "environment/known.h"
#include "errors.h"

#include <torch/csrc/Exceptions.h>

namespace tracehost::python {
namespace {

Owned checked(PyObject *made) {
  if (!made)
    rethrow();
  return Owned(made);
}

/// As copy.copy() makes it: for subclasses, with what attributes they have.
Owned copy_of(PyObject *object) {
  const Owned module = checked(PyImport_ImportModule("copy"));
  return checked(PyObject_CallMethod(module.get(), "copy", "O", object));
}

void check(int failed) {
  if (failed)
    rethrow();
}

bool may_nest(PyObject *object) {
  return PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object) ||
         is_dataclass(object);
}

/// Told by type alone, before anything is looked up.
bool is_scalar(PyObject *object) {
  return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBool_Check(object);
}

} // namespace

Owned Rebuild::value(PyObject *object) {
  if (is_scalar(object) || is_tensor(object) || PyType_Check(object))
    return Owned(Py_NewRef(object));
  if (const auto known = made_.find(object); known != made_.end())
    return Owned(Py_NewRef(known->second.second.get()));
  Owned made(leaf_(object));
  if (made)
    changed_ = true;
  else if (may_nest(object))
    made = container(object);
  else
    return Owned(Py_NewRef(object));
  if (each_)
    return made;
  const auto entry = made_.emplace(object, std::pair{Owned(Py_NewRef(object)), std::move(made)});
  return Owned(Py_NewRef(entry.first->second.second.get()));
}

Owned Rebuild::container(PyObject *object) {
  nesting_.enter(object);
  Owned made = PyTuple_Check(object)  ? tuple(object)
               : PyList_Check(object) ? list(object)
               : PyDict_Check(object) ? dict(object)
                                      : record(object);
  nesting_.leave();
  return made;
}

bool Rebuild::items(PyObject *object, std::vector<Owned> &result) {
  bool differ = false;
  for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
    const Owned item(Py_NewRef(PySequence_Fast_GET_ITEM(object, i)));
    result.push_back(value(item.get()));
    differ |= result.back().get() != item.get();
  }
  return differ;
}

Owned Rebuild::tuple(PyObject *object) {
  std::vector<Owned> made;
  if (!items(object, made))
    return Owned(Py_NewRef(object));
  Owned plain = checked(PyTuple_New(static_cast<Py_ssize_t>(made.size())));
  for (std::size_t i = 0; i < made.size(); ++i)
    PyTuple_SET_ITEM(plain.get(), static_cast<Py_ssize_t>(i), made[i].release());
  if (PyTuple_CheckExact(object))
    return plain;
  const Owned args = checked(PyTuple_Pack(1, plain.get()));
  return checked(PyTuple_Type.tp_new(Py_TYPE(object), args.get(), nullptr));
}

Owned Rebuild::list(PyObject *object) {
  std::vector<Owned> made;
  if (!items(object, made))
    return Owned(Py_NewRef(object));
  Owned result = copy_of(object);
  for (std::size_t i = 0; i < made.size(); ++i)
    check(PyList_SetItem(result.get(), static_cast<Py_ssize_t>(i), made[i].release()));
  return result;
}

Owned Rebuild::dict(PyObject *object) {
  Owned result;
  const Owned before = checked(PyDict_Copy(object)); // its own code may change it meanwhile
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(before.get(), &place, &key, &item);) {
    const Owned made = value(item);
    if (made.get() == item)
      continue;
    if (!result)
      result = copy_of(object);
    check(PyDict_SetItem(result.get(), key, made.get())); // exists: the order stays
  }
  return result ? std::move(result) : Owned(Py_NewRef(object));
}

Owned Rebuild::record(PyObject *object) {
  Owned result;
  const Owned fields = checked(PyObject_GetAttrString(reinterpret_cast<PyObject *>(Py_TYPE(object)),
                                                      "__dataclass_fields__"));
  PyObject *name = nullptr, *field = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(fields.get(), &place, &name, &field);) {
    const Owned item = checked(PyObject_GetAttr(object, name));
    const Owned made = value(item.get());
    if (made.get() == item.get())
      continue;
    if (!result)
      result = copy_of(object);
    // Past a frozen dataclass's own __setattr__, as its __init__ does.
    check(PyObject_GenericSetAttr(result.get(), name, made.get()));
  }
  return result ? std::move(result) : Owned(Py_NewRef(object));
}

} // namespace tracehost::python
