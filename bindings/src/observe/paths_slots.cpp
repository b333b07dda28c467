#include "base/forget_error.h"
#include "observe/paths.h"

#include "base/cpython.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"

#include <new>

/// Paths: how objects, containers and slots are kept, and what a slot must hold.

namespace tracehost::python {

/// A name or key of a container whose slots have one.
Paths::Position Paths::named(int c, PyObject *key, PyObject *value) {
  PyObject *numbers = slot_numbers(c);
  if (PyObject *number = PyDict_GetItemWithError(numbers, key)) {
    const int slot = static_cast<int>(PyLong_AsLong(number));
    graph_.containers[c].slots[slot].aside &= in_state();
    return {c, slot};
  }
  forget_error();
  const Container &in = graph_.containers[c];
  if (!in.open)
    return {c, -1}; // all that was there before has a slot
  if (!value) {
    PyObject *owner = graph_.objects[in.object].object;
    Slot probe;
    probe.key = key;
    value = python::read(in, probe, owner);
  }
  const Position at = add_slot(c, -1, key, value);
  const Owned number(PyLong_FromLong(at.slot));
  if (!number || PyDict_SetItem(numbers, key, number.get()) != 0)
    forget_error();
  return at;
}

Paths::Position Paths::numbered(int c, int index, PyObject *key, PyObject *value) {
  const auto [found, fresh] = numbered_.try_emplace(pair_of(c, index), -1);
  if (!fresh) {
    graph_.containers[c].slots[found->second].aside &= in_state();
    return {c, found->second};
  }
  if (!graph_.containers[c].open) {
    numbered_.erase(found);
    return {c, -1};
  }
  found->second = static_cast<int>(graph_.containers[c].slots.size());
  return add_slot(c, index, key, value);
}

// ---- objects, containers, slots -----------------------------------------------------------------

int Paths::new_object(PyObject *object) {
  Object &o = graph_.objects.emplace_back();
  o.object = Py_NewRef(object);
  o.type = Py_TYPE(object);
  Py_INCREF(reinterpret_cast<PyObject *>(o.type));
  return static_cast<int>(graph_.objects.size()) - 1;
}

int Paths::add_object(PyObject *object, int container, int slot) {
  const int index = new_object(object);
  graph_.objects[index].container = container;
  graph_.objects[index].slot = slot;
  objects_.emplace(object, index);
  if (has_user_attributes(Py_TYPE(object)))
    classes_.insert(Py_TYPE(object));
  return index;
}

int Paths::root_object(PyObject *object, std::string name) {
  const int index = add_object(object, -1, -1);
  graph_.objects[index].name = std::move(name);
  return index;
}

/// A class, which paths start from.
int Paths::class_object(PyTypeObject *type) {
  auto *object = reinterpret_cast<PyObject *>(type);
  if (const auto found = objects_.find(object); found != objects_.end())
    return found->second;
  const int index = root_object(object, type->tp_name);
  graph_.objects[index].library = is_library(origin_of_type(type));
  return index;
}

/// The object's number, if it has a path; -1.
int Paths::number_of(PyObject *object) {
  if (const auto found = objects_.find(object); found != objects_.end())
    return found->second;
  const auto found = leaves_.find(object);
  if (found == leaves_.end())
    return -1;
  const Position at = found->second;
  lead_on(at.container, at.slot, Expect::object);
  return graph_.containers[at.container].slots[at.slot].object;
}

/// The container of a list, tuple, dict, set or `__dict__` that has a path; -1.
int Paths::collection(PyObject *object) {
  if (const auto found = dicts_.find(object); found != dicts_.end())
    return found->second;
  if (!is_collection(object))
    return -1;
  const int index = number_of(object);
  if (index < 0)
    return -1;
  return container(index, PyDict_Check(object)          ? Place::entries
                          : PyAnySet_CheckExact(object) ? Place::set
                          : is_deque(object)            ? Place::deque
                                                        : Place::items);
}

/// Found or made; -1 if the object has no such part.
int Paths::container(int object, Place place) {
  const auto [found, fresh] = containers_.try_emplace(pair_of(object, static_cast<int>(place)), -1);
  if (!fresh)
    return found->second;
  PyObject *owner = graph_.objects[object].object;
  if (place == Place::instance) {
    if (!_PyObject_GetDictPtr(owner))
      return -1;
    // So that its address is known: a function gets one with its first attribute.
    const Owned made(PyObject_GenericGetDict(owner, nullptr));
    forget_error();
  }
  found->second = static_cast<int>(graph_.containers.size());
  Container c;
  c.place = place;
  c.open = true;
  c.object = object;
  c.dict = Py_XNewRef(dict_of(place, owner));
  if (c.dict)
    c.seen = c.watch.start(c.dict, {}, /*whole=*/true) ? c.watch.now() : DictSeen::unknown();
  c.length = length_of(place, owner);
  if (const Object &o = graph_.objects[object]; place == Place::entries && o.container >= 0) {
    const Container &holder = graph_.containers[o.container];
    PyObject *key = holder.slots[o.slot].key;
    const Known &k = known();
    c.module = holder.place == Place::instance &&
               (key == k.parameters || key == k.buffers || key == k.modules) &&
               PyType_IsSubtype(graph_.objects[holder.object].type, k.nn_module);
  }
  graph_.containers.push_back(std::move(c));
  by_key_.resize(graph_.containers.size(), nullptr);
  return found->second;
}

PyObject *Paths::slot_numbers(int c) {
  if (!by_key_[c])
    by_key_[c] = PyDict_New();
  if (!by_key_[c])
    throw std::bad_alloc();
  return by_key_[c];
}

Paths::Position Paths::add_slot(int c, int index, PyObject *key, PyObject *value) {
  Container &in = graph_.containers[c];
  const int number = static_cast<int>(in.slots.size());
  Slot s;
  s.key = Py_XNewRef(key);
  if (s.key && PyUnicode_CheckExact(s.key) && in.place != Place::entries)
    PyUnicode_InternInPlace(&s.key);
  s.index = index;
  s.value = Py_XNewRef(value);
  in.slots.push_back(std::move(s));
  classify(c, number);
  if (PyObject *input = numbers_.take(c, number)) {
    tensors_.emplace(input, Position{c, number});
    graph_.containers[c].slots[number].input = true;
    numbers_.put();
  } else if (numbers_.begin_tuple(c, number)) {
    whole(value, false);
    numbers_.end_tuple(c, number);
  }
  Slot &made = graph_.containers[c].slots[number];
  made.aside = in_state() && may_be_left(made);
  return {c, number};
}

/// A function of C code with an object of its own: `rng.random`, kept in a variable.
static bool is_bound(PyObject *value) {
  if (!PyCFunction_Check(value))
    return false;
  PyObject *self = PyCFunction_GET_SELF(value);
  return self && !PyModule_Check(self);
}

void Paths::classify(int container, int slot) {
  Slot &s = graph_.containers[container].slots[slot];
  PyObject *value = s.value;
  if (value && graph_.containers[container].place == Place::kind && PyTuple_Check(value)) {
    s.atom = std::make_shared<PyAtom>(value, PyAtom::Compare::identity);
    s.node.kind = Kind::atom;
    s.node.payload.atom = s.atom.get();
    return;
  }
  if (value && !is_plain(Py_TYPE(value), value)) {
    PyTypeObject *type = Py_TYPE(value);
    if (is_tensor(value)) {
      s.expect = Expect::tensor;
      tensors_.try_emplace(value, Position{container, slot});
      return;
    }
    if (is_collection(value)) {
      return lead_on(container, slot, Expect::container);
    } else if (PyFunction_Check(value)) {
      leaves_.try_emplace(value, Position{container, slot});
    } else if (PyModule_Check(value)) {
      lead_on(container, slot, Expect::object);
      graph_.objects[graph_.containers[container].slots[slot].object].library |=
          is_library(origin_of_globals(PyModule_GetDict(value)));
    } else if (PyType_Check(value)) {
      classes_.insert(reinterpret_cast<PyTypeObject *>(value));
    } else if (PyMethod_Check(value) || type == known().partial || PyWeakref_Check(value) ||
               PyContextVar_CheckExact(value) ||
               (has_user_attributes(type) && !is_of_a_thread(value))) {
      lead_on(container, slot, Expect::object);
    } else {
      s.opaque = is_opaque(value);
      s.type = s.opaque ? type : nullptr;
      if (s.opaque)
        opaque_.try_emplace(value, Position{container, slot});
      leaves_.try_emplace(value, Position{container, slot});
    }
  } else if (value && is_bound(value)) {
    leaves_.try_emplace(value, Position{container, slot});
  }
  std::vector<AtomRef> atoms;
  Slot &now = graph_.containers[container].slots[slot];
  now.node = leaf_of(value, atoms);
  if (!atoms.empty())
    now.atom = std::move(atoms.front());
}

void Paths::lead_on(int container, int slot, Expect expect) {
  Container &c = graph_.containers[container];
  Slot &s = c.slots[slot];
  s.expect = expect;
  s.type = Py_TYPE(s.value); // kept by the Object
  const auto found = objects_.find(s.value);
  if (found != objects_.end()) {
    s.object = found->second;
    return;
  }
  s.primary = true;
  s.object = add_object(s.value, container, slot);
  graph_.objects[s.object].typed = graph_.objects[c.object].typed;
  graph_.objects[s.object].library = graph_.objects[c.object].library;
  graph_.objects[s.object].alike =
      graph_.objects[c.object].alike && (is_collection(s.value) || may_be_another(s.value));
}

} // namespace tracehost::python
