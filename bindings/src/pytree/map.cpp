#include "pytree/map.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/known.h"
#include "pytree/assemble.h"

namespace tracehost::python {
namespace {

/// As copy.copy() makes it: for subclasses, with what attributes they have.
Owned copy_of(PyObject *object) {
  const Owned module = checked(PyImport_ImportModule("copy"));
  return checked(PyObject_CallMethod(module.get(), "copy", "O", object));
}

/// A container of the class of `object`, with other children.
Owned made_of(PyObject *object, const ContainerType &type, Children &children) {
  const Owned state = type.form() == Form::custom ? Owned() : further_state(object, type);
  return checked(put_together(type, children, state.get()));
}

/// The type alone decides, before anything is looked up.
bool is_scalar(PyObject *object) {
  return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object) || PyBool_Check(object);
}

/// What a record without fields has are its attributes alone: names and values.
bool has_attributes_alone(const ContainerType &type) {
  return type.form() == Form::record && type.fields().empty();
}

/// Stores child `index` in a copy of the container. False with an error set.
bool store(PyObject *copy, const ContainerType &type, const Children &children, std::size_t index) {
  PyObject *child = children[index].get();
  const auto place = static_cast<Py_ssize_t>(index);
  if (type.form() == Form::list)
    return PyList_SetItem(copy, place, Py_NewRef(child)) == 0;
  if (type.form() == Form::sequence)
    return PySequence_SetItem(copy, place, child) == 0;
  if (type.kind() == Kind::dict)
    return PyDict_SetItem(copy, children[index - 1].get(), child) == 0; // exists: the order stays
  PyObject *name = has_attributes_alone(type) ? children[index - 1].get() : type.fields()[index];
  return PyObject_GenericSetAttr(copy, name, child) == 0; // past a frozen class's __setattr__
}

} // namespace

Owned Rebuild::value(PyObject *object) {
  if (is_scalar(object) || is_tensor(object) || PyType_Check(object))
    return Owned(Py_NewRef(object));
  if (const auto known = made_.find(object); known != made_.end())
    return Owned(Py_NewRef(known->second.second.get()));
  Owned made(leaf_(object));
  if (!made) {
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
  const bool custom = type.form() == Form::custom, attributes = has_attributes_alone(type);
  const bool keyed = type.kind() == Kind::dict || attributes;
  const Owned state = attributes ? further_state(object, type) : Owned();
  Children children = state ? items_of(state.get()) : type.children(object);
  c10::SmallVector<std::size_t, 6> replaced;
  for (std::size_t i = custom || keyed ? 1 : 0; i < children.size(); i += keyed ? 2 : 1) {
    Owned made = children[i] ? value(children[i].get()) : Owned(); // null: an absent attribute
    if (made.get() == children[i].get())
      continue;
    children[i] = std::move(made);
    replaced.push_back(i);
  }
  if (replaced.empty())
    return Owned(Py_NewRef(object));
  if (type.form() == Form::mapping)
    raise(errors().signature, std::string("a ") + Py_TYPE(object)->tp_name +
                                  " can't be copied with tensors in place of its arrays. Pass a "
                                  "dict, or put tensors in it.");
  const bool in_c = type.form() == Form::record && class_in_c(type.type()) != &PyBaseObject_Type;
  if (custom || type.kind() == Kind::tuple || (in_c && !attributes))
    return made_of(object, type, children);
  Owned copy = copy_of(object);
  for (const std::size_t i : replaced)
    if (!store(copy.get(), type, children, i))
      rethrow();
  return copy;
}

} // namespace tracehost::python
