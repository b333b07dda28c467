#include "base/forget_error.h"
#include "observe/paths.h"

#include "base/cpython.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/memory.h"
#include "numbers/traced_number.h"

/// Paths: the slots of lists, tuples, dicts, sets and deques, one of them or all.

namespace tracehost::python {

/// What the body uses of an object that no slot describes.
void Paths::use(PyObject *object) {
  if (!once_.empty() || opaque_.empty())
    return;
  const auto found = opaque_.find(object);
  if (found == opaque_.end() || PyObject_CheckBuffer(object)) // memory: a numpy array
    return;
  const auto [c, s] = found->second;
  if (!graph_.objects[graph_.containers[c].object].library)
    unguarded(graph_.path(c, s) + ", of type " + Py_TYPE(object)->tp_name);
}

bool Paths::keeps_print(PyObject *file) const {
  PyObject *to = file && file != Py_None ? file : PySys_GetObject("stdout");
  return to && to != stdout_ && PyObject_TypeCheck(to, known().string_io) && !knows(to) &&
         !is_enclosed(to);
}

Paths::Position Paths::item(PyObject *object, PyObject *key) {
  if (is_traced_number(key)) { // the graph checks it, where C code asks for it
    const Owned plain(value_of(key));
    return plain ? item(object, plain.get()) : Position{whole(object, false), -1};
  }
  use(object);
  const int c = collection(object);
  if (c < 0)
    return {};
  const Place place = graph_.containers[c].place;
  if (place == Place::deque) {
    if (graph_.containers[c].open)
      whole(object, false);
    Py_ssize_t index = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : Py_SIZE(object);
    forget_error();
    index += index < 0 ? Py_SIZE(object) : 0;
    return index < 0 || index >= Py_SIZE(object)
               ? Position{c, -1}
               : numbered(c, static_cast<int>(index), nullptr, nullptr);
  }
  if (place == Place::items) {
    if (!PyIndex_Check(key)) { // a slice
      whole(object, false);
      return {c, -1};
    }
    const Py_ssize_t size = Py_SIZE(object);
    Py_ssize_t index = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : -1;
    forget_error();
    if (index < 0 || index >= size) { // counted from the end, or an error
      length(object);
      index += index < 0 ? size : 0;
    }
    if (index < 0 || index >= size)
      return {c, -1};
    return numbered(c, static_cast<int>(index), nullptr, PySequence_Fast_ITEMS(object)[index]);
  }
  if (may_hold(key) || PyObject_Hash(key) == -1) {
    forget_error();
    whole(object, false);
  }
  return named(c, key, nullptr);
}

// ---- reads of all of an object ------------------------------------------------------------------

void Paths::every_attribute(PyObject *owner) {
  const int object = number_of(owner);
  PyTypeObject *type = Py_TYPE(owner);
  if (object < 0 ||
      (!PyFunction_Check(owner) && !PyModule_Check(owner) && !has_user_attributes(type)))
    return;
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!base->tp_dict || !PyDict_GetItemWithError(base->tp_dict, known().slots))
      continue;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &key, &value);)
      if (Py_IS_TYPE(value, &PyMemberDescr_Type))
        member(object, value, key);
  }
  const int c = container(object, PyModule_Check(owner) ? Place::names : Place::instance);
  if (c >= 0)
    close(c);
  read({c, -1});
}

void Paths::every_name(PyTypeObject *type) {
  for (Py_ssize_t i = 0; classes_.contains(type) && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE))
      continue;
    const int c = container(class_object(base), Place::names);
    if (graph_.containers[c].open)
      close(c);
    read({c, -1});
  }
}

/// The attributes of a types.SimpleNamespace are what it contains.
int Paths::whole(PyObject *object, bool deep) {
  use(object);
  int c = -1;
  if (Py_TYPE(object) == known().simple_namespace)
    every_attribute(object);
  if (PyObject *dict = inner(object); dict && Py_TYPE(object) != known().lru_cache)
    c = whole(dict, false);
  else
    c = elements(object);
  if (deep)
    for (PyObject *part : parts_of(object, /*all=*/false)) {
      if (part != object && Py_TYPE(part) == known().simple_namespace)
        every_attribute(part);
      elements(part);
    }
  return c;
}

void Paths::everything(PyObject *object) {
  constexpr std::size_t kMost = 10000;
  std::vector<PyObject *> found{object};
  std::unordered_set<PyObject *> seen{object};
  const auto add = [&](PyObject *part) {
    if (part && !is_plain(Py_TYPE(part), part) && seen.insert(part).second)
      found.push_back(part);
  };
  for (std::size_t i = 0; i < found.size() && i < kMost; ++i) {
    PyObject *one = found[i];
    if (is_tensor(one) || PyType_Check(one) || PyModule_Check(one) || PyFunction_Check(one))
      continue;
    whole(one, true);
    every_attribute(one);
    for (PyObject *part : parts_of(one, /*all=*/true))
      add(part);
    const Owned dict(has_user_attributes(Py_TYPE(one)) ? PyObject_GenericGetDict(one, nullptr)
                                                       : nullptr);
    forget_error();
    PyObject *key, *value;
    for (Py_ssize_t at = 0; dict && PyDict_Next(dict.get(), &at, &key, &value);)
      add(value);
  }
  if (found.size() > kMost)
    unguarded("an object that leads to many others, and that is pickled");
}

int Paths::elements(PyObject *object) {
  const int c = collection(object);
  if (c < 0)
    return -1;
  if (graph_.containers[c].open)
    close(c);
  read({c, -1});
  const Container &in = graph_.containers[c];
  if (in.place == Place::set && !in.stored && static_cast<Py_ssize_t>(in.slots.size()) < in.length)
    unguarded(graph_.prefix(in.object) + graph_.suffix(in.object) + ", a set of objects");
  return c;
}

int Paths::length(PyObject *object) {
  use(object);
  if (PyObject *dict = inner(object); dict && Py_TYPE(object) != known().lru_cache)
    return length(dict);
  const int c = collection(object);
  if (c < 0)
    return -1;
  Container &in = graph_.containers[c];
  if (in.place == Place::items || in.place == Place::deque)
    in.counted = true;
  else if (in.open)
    close(c);
  (in.stored ? in.read_later : in.read) = true;
  return c;
}

int Paths::before_change(PyObject *object) {
  const int c = collection(object);
  if (c >= 0 && graph_.containers[c].open)
    close(c);
  return c;
}

/// Records what has no slot yet. From now on a key without one was not there before.
void Paths::close(int c) {
  Container &in = graph_.containers[c];
  PyObject *owner = graph_.objects[in.object].object;
  if (in.place == Place::deque || in.place == Place::items) {
    // The body may have stored to some, but not added or removed any.
    for (Py_ssize_t i = 0; i < Py_SIZE(owner); ++i) {
      const Owned item(in.place == Place::deque ? PySequence_GetItem(owner, i)
                                                : Py_NewRef(PySequence_Fast_ITEMS(owner)[i]));
      numbered(c, static_cast<int>(i), nullptr, item.get());
    }
    forget_error();
    in.counted = true;
  } else if (in.place == Place::set) {
    const Owned elements(PySequence_List(owner)); // a copy: it asks no element for its hash
    for (Py_ssize_t i = 0; elements && i < PyList_GET_SIZE(elements.get()); ++i)
      if (PyObject *e = PyList_GET_ITEM(elements.get(), i); is_value(e))
        named(c, e, e);
    forget_error();
    in.counted = true;
  } else if (PyObject *dict = dict_of(in.place, owner)) {
    int order = 0;
    for (Entries entries(dict); entries.next();) {
      const Position found = named(c, entries.key(), entries.value());
      if (found.slot < 0 || !in.slots[found.slot].value)
        continue;
      if (in.place == Place::entries && may_hold(entries.key()))
        read(numbered(container(in.object, Place::keys), order, nullptr, entries.key()));
      in.slots[found.slot].index = order++;
    }
  }
  in.open = false;
}

void Paths::read(Position at) {
  if (at.container < 0)
    return;
  Container &c = graph_.containers[at.container];
  // Of a list whose elements have moved, no slot says where an element is now.
  const bool moved = c.rewritten && (c.place == Place::items || c.place == Place::deque);
  if (at.slot >= 0 && !moved) {
    Slot &s = c.slots[at.slot];
    if (state_) {
      if (!s.stored && !s.read)
        state_->push_back(at);
      return;
    }
    s.read |= !s.stored;
    return read_memory(s);
  }
  if (state_)
    return state_->push_back({at.container, -1});
  (c.stored ? c.read_later : c.read) = true;
  for (Slot &s : c.slots)
    s.read |= moved || !s.stored;
  const std::size_t count = c.slots.size();
  for (std::size_t i = 0; i < count; ++i)
    read_memory(graph_.containers[at.container].slots[i]);
}

std::vector<Paths::Position> Paths::end_state() {
  std::vector<Position> slots = std::move(state_).value_or(std::vector<Position>());
  state_.reset();
  return slots;
}

void Paths::read_state(const std::vector<Position> &slots) {
  for (const Position at : slots) {
    if (at.slot < 0) {
      read(at);
      continue;
    }
    Slot &s = graph_.containers[at.container].slots[at.slot];
    s.read = true;
    s.aside = false;
    read_memory(s);
  }
}

/// What is in the array that a slot holds, which was read before the body could write to it.
void Paths::read_memory(Slot &slot) {
  if (!slot.read || !slot.value || !has_memory(slot.value))
    return;
  PyObject *object = slot.value;
  slot.opaque = false;
  ask(object, nullptr, Asked::contents);
}

void Paths::read_item(Position at) {
  if (at.container < 0)
    return;
  const Container &c = graph_.containers[at.container];
  const bool moved = c.rewritten && (c.place == Place::items || c.place == Place::deque);
  if (at.slot >= 0 || moved)
    read(at);
  else if (state_)
    state_->push_back({at.container, -1});
  else
    graph_.containers[at.container].read = true;
}

Paths::Met Paths::met() const {
  Met met;
  met.once = once_;
  for (const Container &c : graph_.containers) {
    Met::Of &of =
        met.containers.emplace_back(Met::Of{c.read, c.read_later, c.stored, c.rewritten, {}});
    for (const Slot &s : c.slots)
      of.slots.push_back({s.read, s.stored, s.aside});
  }
  return met;
}

/// A slot that leads to a tensor or a number of the graph stays: an input belongs to it.
bool Paths::may_be_left(const Slot &slot) {
  return !slot.input && (slot.expect == Expect::leaf || slot.expect == Expect::object ||
                         slot.expect == Expect::container);
}

void Paths::leave_out(const Met &before) {
  once_ = before.once;
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    Container &c = graph_.containers[i];
    const Met::Of *of = i < before.containers.size() ? &before.containers[i] : nullptr;
    c.read = of && of->read;
    c.read_later = of && of->read_later;
    c.stored = of && of->stored;
    c.rewritten = of && of->rewritten;
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      Slot &slot = c.slots[s];
      const bool known = of && s < of->slots.size();
      slot.read = known && of->slots[s].read;
      slot.stored = known && of->slots[s].stored;
      slot.aside = known ? of->slots[s].aside : may_be_left(slot);
    }
  }
}

void Paths::read_metadata(PyObject *tensor) {
  if (tensors_.contains(tensor) && asked_set_.insert(tensor).second)
    asked_.push_back(tensor);
}

} // namespace tracehost::python
