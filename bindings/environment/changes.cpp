#include "environment/changes.h"

#include "births.h"
#include "environment/known.h"

#include <algorithm>
#include <unordered_set>

namespace tracehost::python {

namespace {

bool has_tensor(PyObject *value, int depth = 0) {
  if (!value || depth > 8)
    return false;
  if (is_tensor(value))
    return true;
  if (PyList_Check(value) || PyTuple_Check(value)) {
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(Py_SIZE(value), Walker::kElements); ++i)
      if (has_tensor(PySequence_Fast_ITEMS(value)[i], depth + 1))
        return true;
  } else if (PyDict_Check(value)) {
    PyObject *key, *item;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; count++ < Walker::kElements && PyDict_Next(value, &at, &key, &item);)
      if (has_tensor(item, depth + 1))
        return true;
  }
  return false;
}

/// Same object, or for plain values an equal one. `before` is alive: the Walker holds it.
bool unchanged(const Slot &slot, PyObject *now) {
  return slot.value == now ||
         (slot.value && now && slot.expect == Expect::leaf && holds(slot.node, now));
}

Store store_of(const Container &c, const Slot *slot, PyObject *owner) {
  switch (c.place) {
  case Place::instance:
  case Place::members:
    return Store::attribute;
  case Place::names:
    return PyModule_Check(owner) ? Store::global : Store::attribute;
  case Place::globals:
    return Store::global;
  case Place::entries:
  case Place::items:
  case Place::set:
    return Store::element;
  case Place::function:
    return slot && slot->index >= 0 ? Store::cell : Store::other;
  case Place::method:
  case Place::partial:
    break;
  }
  return Store::other;
}

class Comparison {
public:
  explicit Comparison(const Walker &walker) : walker_(walker), graph_(walker.graph()) {}

  std::vector<Change> run() {
    for (std::size_t c = 0; c < graph_.containers.size(); ++c)
      compare(static_cast<int>(c));
    return std::move(found_);
  }

private:
  void add(int container, int slot, PyObject *key, PyObject *now) {
    found_.push_back(
        {container, slot, Owned(Py_XNewRef(key)), Owned(Py_XNewRef(now)), python::has_tensor(now)});
  }

  void compare(int container) {
    const Container &c = graph_.containers[container];
    PyObject *owner = graph_.objects[c.object].object;
    PyObject *dict = has_dict(c.place) ? dict_of(c.place, owner) : nullptr;
    if (dict && dict == c.dict && version(dict) == c.tag)
      return;
    bool shrank = false;
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      PyObject *now = read(c, c.slots[s], owner, dict);
      if (unchanged(c.slots[s], now))
        continue;
      if (!now && c.place == Place::entries)
        shrank = true;
      else
        add(container, static_cast<int>(s), c.slots[s].key, now);
    }
    if (c.open)
      return;
    if (c.place == Place::set && PySet_GET_SIZE(owner) != c.length)
      add(container, -1, nullptr, nullptr);
    if (c.place == Place::items && Py_SIZE(owner) != c.length)
      add(container, -1, nullptr,
          Py_SIZE(owner) > c.length ? PySequence_Fast_ITEMS(owner)[c.length] : nullptr);
    if (shrank)
      add(container, -1, nullptr, nullptr);
    if (c.place == Place::entries && c.length > Walker::kElements)
      return PyDict_GET_SIZE(dict) != c.length ? add(container, -1, nullptr, nullptr) : void();
    if (dict && (c.place == Place::entries ? shrank || PyDict_GET_SIZE(dict) != c.length
                                           : c.place != Place::globals))
      appeared(container, dict);
  }

  void appeared(int container, PyObject *dict) {
    const Container &c = graph_.containers[container];
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
      if (c.place != Place::entries && !walker_.counts(c, key))
        continue;
      bool before = false;
      for (const Slot &s : c.slots)
        before |= s.key == key || (PyUnicode_CheckExact(key) && PyUnicode_CheckExact(s.key) &&
                                   PyUnicode_Compare(s.key, key) == 0);
      if (!before)
        add(container, -1, key, value);
    }
  }

  const Walker &walker_;
  const Graph &graph_;
  std::vector<Change> found_;
};

} // namespace

std::vector<Change> changes_of(const Walker &walker) { return Comparison(walker).run(); }

Storer storer_of(const Change &change, const Graph &graph, const Ran &ran) {
  const Container &c = graph.containers[change.container];
  const Slot *slot = change.slot < 0 ? nullptr : &c.slots[change.slot];
  const Store store = store_of(c, slot, graph.objects[c.object].object);
  PyObject *name = !is_collection(c.place) || c.module ? change.key.get() : nullptr;
  Storer found;
  Site again;
  found.body = find_store(ran.body, store, name, found.where);
  found.called = ran.calls && (!found.body || find_store(ran.called, store, name, again));
  return found;
}

std::string path_of(const Change &change, const Graph &graph) {
  const Container &c = graph.containers[change.container];
  if (change.slot >= 0)
    return graph.path(change.container, change.slot);
  return change.key ? graph.path(change.container, change.key.get())
                    : graph.prefix(c.object) + graph.suffix(c.object);
}

bool is_lifted(PyObject *value) {
  std::vector<PyObject *> todo;
  std::unordered_set<PyObject *> seen;
  const auto add = [&](PyObject *object) {
    if (object && seen.size() < Walker::kSlots && seen.insert(object).second)
      todo.push_back(object);
  };
  if (Births::any_made_aside())
    add(value);
  while (!todo.empty()) {
    PyObject *object = todo.back();
    todo.pop_back();
    if (Births::made_aside(object))
      return true;
    if (PyList_Check(object) || PyTuple_Check(object)) {
      for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
        add(PySequence_Fast_ITEMS(object)[i]);
    } else if (PyDict_Check(object)) {
      PyObject *key, *item;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
        add(item);
    } else if (has_user_attributes(Py_TYPE(object))) {
      add(dict_of(Place::instance, object));
    }
  }
  return false;
}

} // namespace tracehost::python
