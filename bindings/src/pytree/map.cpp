#include "pytree/map.h"

#include "base/errors.h"
#include "base/known.h"
#include "pytree/assemble.h"

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

/// The type alone decides, before anything is looked up.
bool is_scalar(PyObject *object) {
  return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBool_Check(object);
}

std::vector<Owned> items_of(PyObject *sequence) {
  std::vector<Owned> result;
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); ++i)
    result.emplace_back(Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i)));
  return result;
}

/// Of `parts` instead of the ones it has.
Owned made_of(PyObject *object, const ContainerType &type, std::vector<Owned> &parts) {
  Children children;
  for (Owned &part : parts)
    children.push_back(std::move(part));
  const Owned state = type.form() == Form::custom ? Owned() : further_state(object, type);
  return checked(put_together(type, children, state.get()));
}

} // namespace

Owned Rebuild::value(PyObject *object) {
  if (is_scalar(object) || is_tensor(object) || PyType_Check(object))
    return Owned(Py_NewRef(object));
  if (const auto known = made_.find(object); known != made_.end())
    return Owned(Py_NewRef(known->second.second.get()));
  Owned made(leaf_(object));
  if (made) {
    changed_ = true;
  } else {
    const auto type = container_type(object);
    if (!type)
      return Owned(Py_NewRef(object));
    nesting_.enter(object);
    made = container(object, *type);
    nesting_.leave();
  }
  if (each_)
    return made;
  const auto entry = made_.emplace(object, std::pair{Owned(Py_NewRef(object)), std::move(made)});
  return Owned(Py_NewRef(entry.first->second.second.get()));
}

/// A new reference: to `object` itself where nothing in it is replaced.
Owned Rebuild::container(PyObject *object, const ContainerType &type) {
  Owned made;
  switch (type.form()) {
  case Form::tuple:
    made = tuple(object, type);
    break;
  case Form::list:
    made = list(object);
    break;
  case Form::dict:
  case Form::ordered:
  case Form::mapping:
    made = dict(object, type);
    break;
  case Form::sequence:
    made = sequence(object, type);
    break;
  case Form::record:
    made = record(object, type);
    break;
  case Form::custom:
    made = custom(object, type);
    break;
  case Form::typed: // an object to those who look at values
    break;
  }
  return made ? std::move(made) : Owned(Py_NewRef(object));
}

bool Rebuild::items(std::vector<Owned> &items) {
  bool differ = false;
  for (Owned &item : items) {
    if (!item) // absent
      continue;
    Owned made = value(item.get());
    differ |= made.get() != item.get();
    item = std::move(made);
  }
  return differ;
}

Owned Rebuild::tuple(PyObject *object, const ContainerType &type) {
  std::vector<Owned> made = items_of(object);
  return items(made) ? made_of(object, type, made) : Owned();
}

Owned Rebuild::list(PyObject *object) {
  std::vector<Owned> made = items_of(object);
  if (!items(made))
    return Owned();
  Owned result = copy_of(object);
  for (std::size_t i = 0; i < made.size(); ++i)
    check(PyList_SetItem(result.get(), static_cast<Py_ssize_t>(i), made[i].release()));
  return result;
}

Owned Rebuild::dict(PyObject *object, const ContainerType &type) {
  Owned result;
  const bool is_dict = type.form() != Form::mapping;
  // A copy: its own code may change it meanwhile.
  const Owned before = checked(is_dict ? PyDict_Copy(object) : PyDict_New());
  if (!is_dict)
    check(PyDict_Update(before.get(), object));
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(before.get(), &place, &key, &item);) {
    const Owned made = value(item);
    if (made.get() == item)
      continue;
    if (!is_dict)
      raise(errors().signature, std::string("a ") + Py_TYPE(object)->tp_name +
                                    " can't be copied with tensors in place of its arrays. Pass a "
                                    "dict, or put tensors in it.");
    if (!result)
      result = copy_of(object);
    check(PyDict_SetItem(result.get(), key, made.get())); // exists: the order stays
  }
  return result;
}

Owned Rebuild::sequence(PyObject *object, const ContainerType &type) {
  std::vector<Owned> made = parts(object, type.form());
  if (!items(made))
    return Owned();
  if (type.kind() == Kind::tuple) // a frozenset
    return made_of(object, type, made);
  Owned result = copy_of(object);
  for (std::size_t i = 0; i < made.size(); ++i)
    check(PySequence_SetItem(result.get(), static_cast<Py_ssize_t>(i), made[i].get()));
  return result;
}

/// What it has are attributes alone.
Owned Rebuild::attributes(PyObject *object, const ContainerType &type) {
  Owned result;
  const Owned before = further_state(object, type);
  PyObject *name = nullptr, *item = nullptr;
  for (Py_ssize_t place = 0; before && PyDict_Next(before.get(), &place, &name, &item);) {
    const Owned made = value(item);
    if (made.get() == item)
      continue;
    if (!result)
      result = copy_of(object);
    check(PyObject_GenericSetAttr(result.get(), name, made.get()));
  }
  return result;
}

Owned Rebuild::record(PyObject *object, const ContainerType &type) {
  if (type.fields().empty() && type.has_more())
    return attributes(object, type);
  std::vector<Owned> made, before; // both held: an address stays its own
  for (PyObject *name : type.fields()) {
    made.push_back(field_of(object, name));
    before.emplace_back(Py_XNewRef(made.back().get()));
  }
  if (!items(made))
    return Owned();
  if (class_in_c(type.type()) != &PyBaseObject_Type)
    return made_of(object, type, made);
  Owned result = copy_of(object);
  for (std::size_t i = 0; i < made.size(); ++i)
    // Past a frozen class's own __setattr__, as its __init__ does.
    if (made[i].get() != before[i].get())
      check(PyObject_GenericSetAttr(result.get(), type.fields()[i], made[i].get()));
  return result;
}

Owned Rebuild::custom(PyObject *object, const ContainerType &type) {
  Owned context;
  std::vector<Owned> made = type.apart(object, context);
  if (!items(made))
    return Owned();
  made.insert(made.begin(), std::move(context));
  return made_of(object, type, made);
}

} // namespace tracehost::python
