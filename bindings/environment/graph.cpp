#include "environment/graph.h"

#include "environment/gil.h"
#include "environment/known.h"

namespace tracehost::python {

namespace {

/// An Environment keeps no key that may hold other objects: then by position.
std::string subscript(PyObject *key, std::int32_t index) {
  if (!key)
    return "[key " + std::to_string(index) + "]";
  Owned text(PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? PyObject_Repr(key) : nullptr);
  PyErr_Clear();
  return text ? std::string("[") + utf8(text.get()) + "]"
              : std::string("[<") + Py_TYPE(key)->tp_name + ">]";
}

/// `.weight`, and `[0]` for the numbered children of a ModuleList or Sequential.
std::string child(PyObject *key) {
  const std::string name = utf8(key);
  const bool number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
  return number ? "[" + name + "]" : "." + name;
}

std::string step(const Container &c, PyObject *key, std::int32_t index) {
  switch (c.place) {
  case Place::instance:
  case Place::members:
  case Place::names:
  case Place::method:
  case Place::partial:
    return std::string(".") + utf8(key);
  case Place::globals:
  case Place::function:
    return utf8(key);
  case Place::entries:
    return c.module && key ? child(key) : subscript(key, index);
  case Place::items:
    return "[" + std::to_string(index) + "]";
  }
  return {};
}

} // namespace

std::string Graph::prefix(int object) const {
  const Object &o = objects[object];
  if (o.container < 0)
    return o.name;
  const Container &c = containers[o.container];
  const Slot &s = c.slots[o.slot];
  // `self._modules['fc']` is `self.fc` to its user, and a function's cells start anew.
  if (c.place == Place::instance && s.key &&
      (s.key == known().parameters || s.key == known().buffers || s.key == known().modules))
    return prefix(c.object);
  if (c.place == Place::function)
    return step(c, s.key, s.index);
  return prefix(c.object) + step(c, s.key, s.index);
}

const std::string &Graph::suffix(int object) const {
  while (objects[object].container >= 0)
    object = containers[objects[object].container].object;
  return objects[object].suffix;
}

std::string Graph::path(int container, int slot) const {
  const Container &c = containers[container];
  const Slot &s = c.slots[slot];
  if (c.place == Place::function) {
    const std::string of =
        objects[c.object].name.empty() ? prefix(c.object) : objects[c.object].name;
    const std::string suffix = of.empty() ? of : " (" + of + ")";
    return s.index < 0 ? step(c, s.key, s.index) + suffix
                       : "nonlocal " + step(c, s.key, s.index) + suffix;
  }
  return prefix(c.object) + step(c, s.key, s.index) + suffix(c.object);
}

std::string Graph::path(int container, PyObject *key) const {
  const Container &c = containers[container];
  return prefix(c.object) + step(c, key, -1) + suffix(c.object);
}

PyObject *dict_of(Place place, PyObject *owner) {
  switch (place) {
  case Place::instance: {
    PyObject **at = _PyObject_GetDictPtr(owner); // makes the dict from inline values
    return at ? *at : nullptr;
  }
  case Place::names:
    return PyType_Check(owner) ? reinterpret_cast<PyTypeObject *>(owner)->tp_dict
                               : PyModule_GetDict(owner);
  case Place::globals:
  case Place::entries:
    return owner;
  default:
    return nullptr;
  }
}

PyObject *read(const Container &container, const Slot &slot, PyObject *owner, PyObject *dict) {
  switch (container.place) {
  case Place::instance:
  case Place::names:
  case Place::globals:
  case Place::entries: {
    PyObject *value = dict ? PyDict_GetItemWithError(dict, slot.key) : nullptr;
    if (!value && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
      PyErr_Clear();
    return value;
  }
  case Place::members:
    return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(owner) + slot.index);
  case Place::items:
    return slot.index < Py_SIZE(owner) ? PySequence_Fast_ITEMS(owner)[slot.index] : nullptr;
  case Place::function: {
    auto *function = reinterpret_cast<PyFunctionObject *>(owner);
    if (slot.index == kDefaults)
      return function->func_defaults;
    if (slot.index == kKeywordDefaults)
      return function->func_kwdefaults;
    return function->func_closure && slot.index < PyTuple_GET_SIZE(function->func_closure)
               ? PyCell_GET(PyTuple_GET_ITEM(function->func_closure, slot.index))
               : nullptr;
  }
  case Place::method:
    return slot.index == 0 ? PyMethod_GET_SELF(owner) : PyMethod_GET_FUNCTION(owner);
  case Place::partial: {
    Owned value(PyObject_GetAttr(owner, slot.key)); // a C member: the partial keeps it
    PyErr_Clear();
    return value.get();
  }
  }
  return nullptr;
}

Node leaf_of(PyObject *value, std::vector<AtomRef> &atoms) {
  if (!value) {
    Node node;
    node.kind = Kind::absent;
    return node;
  }
  if (!PyFunction_Check(value))
    return leaf(value, atoms);
  // Weakly: a function in an instance's attribute may hold that instance in its closure.
  Node node;
  atoms.push_back(std::make_shared<PyAtom>(value, PyAtom::Compare::weak_identity));
  node.kind = Kind::atom;
  node.payload.atom = atoms.back().get();
  return node;
}

} // namespace tracehost::python
