#include "guards/graph.h"

#include "base/cpython.h"
#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/memory.h"

#include <bit>

namespace tracehost::python {

namespace {

/// Guards keep no key that may hold other objects: then by position.
std::string subscript(PyObject *key, std::int32_t index) {
  if (!key)
    return "[key " + std::to_string(index) + "]";
  Owned text(PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? PyObject_Repr(key) : nullptr);
  forget_error();
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
  case Place::fields:
  case Place::kind:
    return std::string(".") + utf8(key);
  case Place::asked:
    if (index == Asked::contents)
      return ".data";
    if (index == Asked::subclass)
      return std::string(".__subclasscheck__(") + reinterpret_cast<PyTypeObject *>(key)->tp_name +
             ")";
    if (key && PyTuple_Check(key)) {
      const Owned arguments(PyObject_Repr(key));
      return arguments ? utf8(arguments.get()) : "()";
    }
    return (key ? std::string(".") + utf8(key) : std::string()) +
           (index == Asked::attribute_of ? "" : "()");
  case Place::inner:
    return ""; // `table[2]`: a cached result of table(2)
  case Place::keys:
    return "[key " + std::to_string(index) + "]";
  case Place::globals:
  case Place::function:
    return utf8(key);
  case Place::entries:
    return c.module && key ? child(key) : subscript(key, index);
  case Place::set:
    return subscript(key, index);
  case Place::referent:
    return "()";
  case Place::items:
  case Place::deque:
    return "[" + std::to_string(index) + "]";
  }
  return {};
}

/// Whether a slot is a step of its own in a path: `self._modules['fc']` is `self.fc` to its user.
bool is_silent(const Container &c, const Slot &s) {
  return c.place == Place::instance && s.key &&
         (s.key == known().parameters || s.key == known().buffers || s.key == known().modules);
}

} // namespace

std::string Graph::prefix(int object) const {
  const Object &o = objects[object];
  if (o.container < 0)
    return o.name;
  const Container &c = containers[o.container];
  const Slot &s = c.slots[o.slot];
  if (c.place == Place::function) // a function's cells start again
    return step(c, s.key, s.index);
  return is_silent(c, s) ? prefix(c.object) : prefix(c.object) + step(c, s.key, s.index);
}

const std::string &Graph::suffix(int object) const {
  while (objects[object].container >= 0)
    object = containers[objects[object].container].object;
  return objects[object].suffix;
}

std::string Graph::path(int container, int slot) const {
  return path(container, slot, prefix(containers[container].object));
}

std::string Graph::path(int container, int slot, const std::string &prefix) const {
  const Container &c = containers[container];
  const Slot &s = c.slots[slot];
  const std::string own = step(c, s.key, s.index);
  if (c.place != Place::function)
    return prefix + own + suffix(c.object);
  const std::string &name = objects[c.object].name, &of = name.empty() ? prefix : name;
  return (s.index < 0 ? own : "nonlocal " + own) + (of.empty() ? of : " (" + of + ")");
}

std::string Graph::path(int container, PyObject *key) const {
  const Container &c = containers[container];
  return prefix(c.object) + step(c, key, -1) + suffix(c.object);
}

PyObject *dict_of(Place place, PyObject *owner) {
  switch (place) {
  case Place::instance:
    return instance_dict(owner);
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

Entries::Entries(PyObject *dict)
    : dict_(dict), order_(PyODict_Check(dict) ? PyODict_Type.tp_iter(dict) : nullptr) {}

Entries::~Entries() { Py_XDECREF(order_); }

bool Entries::next() {
  if (!order_)
    return PyDict_Next(dict_, &at_, &key_, &value_);
  const Owned key(PyODictIter_Type.tp_iternext(order_));
  key_ = key.get(); // the dict has it
  value_ = key_ ? PyDict_GetItemWithError(dict_, key_) : nullptr;
  forget_error();
  return value_ != nullptr;
}

Py_ssize_t length_of(Place place, PyObject *owner) {
  return place == Place::entries                          ? PyDict_GET_SIZE(owner)
         : place == Place::items || place == Place::deque ? Py_SIZE(owner)
         : place == Place::set                            ? PySet_GET_SIZE(owner)
                                                          : -1;
}

namespace {

/// Both are of one plain type.
bool is_same_answer(PyObject *a, PyObject *b) {
  if (a == b || !a || !b || Py_TYPE(a) != Py_TYPE(b))
    return a == b;
  if (PyFloat_CheckExact(a))
    return std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(a)) ==
           std::bit_cast<std::uint64_t>(PyFloat_AS_DOUBLE(b));
  const int same = is_plain(Py_TYPE(a), a) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
  forget_error();
  return same == 1;
}

PyObject *answer(const Slot &slot, PyObject *owner) {
  switch (slot.index) {
  case Asked::attribute_of:
    return PyObject_GetAttr(owner, slot.key);
  case Asked::method_of:
    return PyObject_CallMethodNoArgs(owner, slot.key);
  case Asked::context: {
    PyObject *value = nullptr;
    // The variable stands for no value, as no program sets it to itself.
    if (PyContextVar_Get(owner, owner, &value) == 0 && value == owner)
      Py_CLEAR(value);
    return value;
  }
  case Asked::contents:
    return memory_of(owner);
  case Asked::subclass: {
    const int is = PyObject_IsSubclass(slot.key, owner);
    return is < 0 ? nullptr : PyBool_FromLong(is);
  }
  default:
    return slot.key ? PyObject_Call(owner, slot.key, nullptr) : PyObject_CallNoArgs(owner);
  }
}

/// The same object as last time, as long as it is equal.
PyObject *ask(const Slot &slot, PyObject *owner) {
  const Owned now(answer(slot, owner));
  forget_error();
  if (!is_same_answer(slot.answer, now.get()))
    Py_XSETREF(slot.answer, Py_XNewRef(now.get()));
  return slot.answer;
}

} // namespace

PyObject *read(const Container &container, const Slot &slot, PyObject *owner, PyObject *dict) {
  switch (container.place) {
  case Place::instance:
  case Place::names:
  case Place::globals:
  case Place::entries:
    return dict ? value_of(dict, slot.key, slot.place) : nullptr;
  case Place::members:
    return *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(owner) + slot.index);
  case Place::set: {
    const int found = PySet_Contains(owner, slot.key);
    if (found < 0)
      forget_error();
    return found == 1 ? slot.key : nullptr;
  }
  case Place::deque: {
    const Owned item(PySequence_GetItem(owner, slot.index)); // the deque holds it
    forget_error();
    return item.get();
  }
  case Place::items:
    return slot.index < Py_SIZE(owner) ? PySequence_Fast_ITEMS(owner)[slot.index] : nullptr;
  case Place::function: {
    auto *function = reinterpret_cast<PyFunctionObject *>(owner);
    if (slot.index == kDefaults)
      return function->func_defaults;
    if (slot.index == kKeywordDefaults)
      return function->func_kwdefaults;
    if (slot.index == kCode)
      return function->func_code;
    if (slot.index == kName)
      return function->func_name;
    if (slot.index == kQualifiedName)
      return function->func_qualname;
    if (slot.index == kAnnotations) {
      PyObject *annotations = PyFunction_GetAnnotations(owner); // borrowed
      forget_error();
      return annotations;
    }
    return function->func_closure && slot.index < PyTuple_GET_SIZE(function->func_closure)
               ? PyCell_GET(PyTuple_GET_ITEM(function->func_closure, slot.index))
               : nullptr;
  }
  case Place::referent:
    return referent(owner);
  case Place::inner:
    return inner_dict(owner);
  case Place::keys: {
    Entries entries(owner);
    for (int i = 0; i <= slot.index; ++i)
      if (!entries.next())
        return nullptr;
    return entries.key();
  }
  case Place::asked:
    return ask(slot, owner);
  case Place::fields: {
    const Owned value(PyObject_GetAttr(owner, slot.key)); // a C member: the owner keeps it
    forget_error();
    return value.get();
  }
  case Place::kind: {
    auto *type = reinterpret_cast<PyTypeObject *>(owner);
    auto *made = reinterpret_cast<PyHeapTypeObject *>(owner);
    return slot.index == Kept::its_class   ? reinterpret_cast<PyObject *>(Py_TYPE(owner))
           : slot.index == Kept::its_bases ? type->tp_mro
           : slot.index == Kept::its_name  ? made->ht_name
                                           : made->ht_qualname;
  }
  }
  return nullptr;
}

namespace {

/// The object's `__dict__`, made if it has none yet: a tensor gets one with its first attribute.
/// Null with an error set if its class gives it none.
PyObject *made_dict(PyObject *owner) {
  const Owned made(PyObject_GenericGetDict(owner, nullptr));
  return made ? dict_of(Place::instance, owner) : nullptr;
}

bool write_entry(PyObject *dict, PyObject *key, PyObject *value) {
  if (!dict) {
    if (value && !PyErr_Occurred())
      PyErr_NoMemory();
    return !value && !PyErr_Occurred(); // nothing is there to be deleted
  }
  if (PyODict_Check(dict))
    return (value ? PyODict_SetItem(dict, key, value) : PyODict_DelItem(dict, key)) == 0;
  return (value ? PyDict_SetItem(dict, key, value) : PyDict_DelItem(dict, key)) == 0;
}

} // namespace

bool write(Place place, PyObject *key, std::int32_t index, PyObject *owner, PyObject *value) {
  switch (place) {
  case Place::instance:
    return write_entry(value ? made_dict(owner) : dict_of(place, owner), key, value);
  case Place::globals:
  case Place::entries:
    return write_entry(dict_of(place, owner), key, value);
  case Place::names: // a metaclass's own __setattr__ is part of what was traced
    return (PyType_Check(owner) ? PyType_Type.tp_setattro(owner, key, value)
                                : PyObject_SetAttr(owner, key, value)) == 0;
  case Place::members:
    Py_XSETREF(*reinterpret_cast<PyObject **>(reinterpret_cast<char *>(owner) + index),
               Py_XNewRef(value));
    return true;
  case Place::items:
    return PyList_SetItem(owner, index, Py_XNewRef(value)) == 0;
  case Place::function: {
    if (index < 0)
      break;
    PyObject *cells = reinterpret_cast<PyFunctionObject *>(owner)->func_closure;
    return PyCell_Set(PyTuple_GET_ITEM(cells, index), value) == 0;
  }
  case Place::deque:
    return PySequence_SetItem(owner, index, value) == 0;
  case Place::asked:
    if (index == Asked::context && value) {
      const Owned token(PyContextVar_Set(owner, value));
      return static_cast<bool>(token);
    }
    break;
  case Place::set:
  case Place::fields:
  case Place::referent:
  case Place::keys:
  case Place::inner:
  case Place::kind:
    break;
  }
  PyErr_SetString(PyExc_SystemError, "tracehost: nothing can be stored in such a place");
  return false;
}

void store(const Container &container, const Slot &slot, PyObject *owner, PyObject *value) {
  if (!write(container.place, slot.key, slot.index, owner, value))
    forget_error();
}

Node leaf_of(PyObject *value, std::vector<AtomRef> &atoms) {
  if (!value) {
    Node node;
    node.kind = Kind::absent;
    return node;
  }
  // A function weakly: one in an instance's attribute may hold that instance in its closure.
  return PyFunction_Check(value) ? weak_leaf(value, atoms) : leaf(value, atoms);
}

Node weak_leaf(PyObject *object, std::vector<AtomRef> &atoms) {
  Node node;
  atoms.push_back(std::make_shared<PyAtom>(object, PyAtom::Compare::weak_identity));
  node.kind = Kind::atom;
  node.payload.atom = atoms.back().get();
  return node;
}

} // namespace tracehost::python
