#include "observe/changes.h"

#include "base/kinds.h"
#include "base/known.h"
#include "numbers/traced_number.h"
#include "observe/allocations.h"

#include <algorithm>
#include <unordered_set>

namespace tracehost::python {

namespace {

/// Calls `is_it` with the value, and with what it leads to by elements and attributes, until it
/// says true. Returns whether it did.
template <class Predicate> bool leads_to(PyObject *value, Predicate is_it) {
  std::vector<PyObject *> todo;
  std::unordered_set<PyObject *> seen;
  const auto add = [&](PyObject *object) {
    if (object && !is_plain(Py_TYPE(object), object) && seen.insert(object).second)
      todo.push_back(object);
  };
  add(value);
  while (!todo.empty()) {
    PyObject *object = todo.back();
    todo.pop_back();
    if (is_it(object))
      return true;
    if (PyList_Check(object) || PyTuple_Check(object)) {
      for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
        add(PySequence_Fast_ITEMS(object)[i]);
    } else if (PyDict_Check(object)) {
      PyObject *key, *item;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &item);)
        add(item);
    }
    if (has_user_attributes(Py_TYPE(object)))
      add(dict_of(Place::instance, object));
  }
  return false;
}

bool is_graph_number(PyObject *object) {
  return is_traced_number(object) || (is_tensor(object) && is_number(object));
}

/// Same object, or for plain values an equal one. `before` is alive: the slot holds it. A later
/// call may find another number in an input, and has to store this one.
bool unchanged(const Slot &slot, PyObject *now) {
  if (slot.input && slot.stored)
    return false;
  return slot.value == now ||
         (slot.value && now && slot.expect == Expect::leaf && holds(slot.node, now));
}

class Comparison {
public:
  explicit Comparison(const Graph &graph) : graph_(graph) {}

  std::vector<Change> run() {
    for (std::size_t c = 0; c < graph_.containers.size(); ++c)
      compare(static_cast<int>(c));
    return std::move(found_);
  }

private:
  void add(int container, int slot, PyObject *key, PyObject *now) {
    bool tensor = false, number = false;
    leads_to(now, [&](PyObject *object) {
      tensor |= is_tensor(object);
      number |= is_graph_number(object);
      return tensor && number;
    });
    found_.push_back(
        {container, slot, Owned(Py_XNewRef(key)), Owned(Py_XNewRef(now)), tensor, number});
  }

  void compare(int container) {
    const Container &c = graph_.containers[container];
    PyObject *owner = graph_.objects[c.object].object;
    PyObject *dict = dict_of(c.place, owner);
    const bool reordered =
        c.place == Place::entries && c.rewritten && PyODict_Check(owner) && is_reordered(c, owner);
    if (dict && dict == c.dict && version(dict) == c.tag && !reordered)
      return; // an OrderedDict's order has no version
    const std::size_t before = found_.size();
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      PyObject *now = read(c, c.slots[s], owner, dict);
      if (unchanged(c.slots[s], now))
        continue;
      add(container, static_cast<int>(s), c.slots[s].key, now);
    }
    if ((c.place == Place::set || c.place == Place::deque) && c.counted &&
        length_of(c.place, owner) != c.length)
      add(container, -1, nullptr, new_elements(c, owner).get());
    if (c.place == Place::items && c.counted && Py_SIZE(owner) != c.length)
      grown_or_shrunk(container, owner, found_.size() == before);
    if (c.open)
      return;
    if (dict)
      appeared(container, dict);
    if (reordered)
      add(container, -1, nullptr, nullptr);
  }

  /// What a set or deque has that no slot holds.
  static Owned new_elements(const Container &c, PyObject *owner) {
    Owned made(PyList_New(0));
    const Owned all(PySequence_List(owner)); // a copy: it asks no element for its hash
    for (Py_ssize_t i = 0; made && all && i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject *element = PyList_GET_ITEM(all.get(), i);
      if (std::none_of(c.slots.begin(), c.slots.end(),
                       [element](const Slot &s) { return s.value == element; }))
        PyList_Append(made.get(), element);
    }
    PyErr_Clear();
    return made;
  }

  /// Whether the keys of an OrderedDict that were there before follow in another order now.
  static bool is_reordered(const Container &c, PyObject *dict) {
    const Owned places(PyDict_New());
    for (const Slot &s : c.slots)
      if (const Owned place(s.value ? PyLong_FromLong(s.index) : nullptr); place && places)
        PyDict_SetItem(places.get(), s.key, place.get());
    long last = -1;
    bool found = false;
    for (Entries entries(dict); places && !found && entries.next();)
      if (PyObject *place = PyDict_GetItemWithError(places.get(), entries.key())) {
        found = PyLong_AsLong(place) < last;
        last = PyLong_AsLong(place);
      }
    PyErr_Clear();
    return found;
  }

  void grown_or_shrunk(int container, PyObject *list, bool kept) {
    const Py_ssize_t length = graph_.containers[container].length;
    if (Py_SIZE(list) < length)
      return add(container, -1, nullptr, nullptr);
    for (Py_ssize_t i = length; i < Py_SIZE(list); ++i) {
      add(container, -1, nullptr, PySequence_Fast_ITEMS(list)[i]);
      found_.back().appended = kept;
    }
  }

  /// What has no slot in a dict that was read whole was not there before.
  void appeared(int container, PyObject *dict) {
    const Owned before(PySet_New(nullptr));
    for (const Slot &s : graph_.containers[container].slots)
      if (before)
        PySet_Add(before.get(), s.key);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; before && PyDict_Next(dict, &at, &key, &value);)
      if (PySet_Contains(before.get(), key) == 0)
        add(container, -1, key, value);
    PyErr_Clear();
  }

  const Graph &graph_;
  std::vector<Change> found_;
};

} // namespace

std::vector<Change> changes_of(const Graph &graph) { return Comparison(graph).run(); }

std::string path_of(const Change &change, const Graph &graph) {
  const Container &c = graph.containers[change.container];
  if (change.slot >= 0)
    return graph.path(change.container, change.slot);
  return change.key ? graph.path(change.container, change.key.get())
                    : graph.prefix(c.object) + graph.suffix(c.object);
}

void visit_stored(const Change &change, const std::function<void(PyObject *)> &visit) {
  leads_to(change.now.get(), [&](PyObject *object) {
    visit(object);
    return false;
  });
}

PyObject *owner_of(const Change &change, const Graph &graph) {
  return graph.objects[graph.containers[change.container].object].object;
}

void store(const Change &change, const Graph &graph, PyObject *value) {
  const Container &c = graph.containers[change.container];
  const int index = change.slot < 0 ? -1 : c.slots[change.slot].index;
  if (!write(c.place, change.key.get(), index, owner_of(change, graph), value))
    PyErr_Clear(); // something else has taken it away
}

bool stores_fake_tensor(const Change &change, const Graph &graph) {
  const auto is_fake = [](PyObject *object) { return is_tensor(object) && is_fake_tensor(object); };
  const Container &c = graph.containers[change.container];
  if (c.place == Place::set || c.place == Place::deque) { // which elements are new is unknown
    const Owned elements(PySequence_List(owner_of(change, graph)));
    PyErr_Clear();
    return elements && leads_to(elements.get(), is_fake);
  }
  if (!change.now)
    return false;
  if (leads_to(change.now.get(), is_fake))
    return true;
  const Object &dict = graph.objects[c.object];
  if (dict.container < 0 || graph.containers[dict.container].place != Place::inner)
    return false;
  // An entry of a bounded cache is an object of C code, whose result the cache itself shows.
  PyObject *cache = graph.objects[graph.containers[dict.container].object].object;
  bool found = false;
  const auto visit = [](PyObject *part, void *into) {
    *static_cast<bool *>(into) |= is_tensor(part) && is_fake_tensor(part);
    return 0;
  };
  if (Py_TYPE(cache)->tp_traverse)
    Py_TYPE(cache)->tp_traverse(cache, visit, &found);
  return found;
}

void refill(PyObject *container, PyObject *elements) {
  if (PyList_Check(container)) {
    PyList_SetSlice(container, 0, PyList_GET_SIZE(container), elements);
  } else {
    Py_XDECREF(PyObject_CallMethod(container, "clear", nullptr));
    const char *fill = is_deque(container) ? "extend" : "update";
    Py_XDECREF(PyObject_CallMethod(container, fill, "O", elements));
  }
  PyErr_Clear();
}

namespace {

/// What a list or deque held before. Its slots have all of that.
Owned elements_before(const Container &c) {
  std::vector<PyObject *> before(static_cast<std::size_t>(c.length));
  for (const Slot &slot : c.slots)
    if (slot.index >= 0 && slot.index < c.length)
      before[static_cast<std::size_t>(slot.index)] = slot.value;
  Owned list(PyList_New(0));
  for (PyObject *value : before)
    if (list && value)
      PyList_Append(list.get(), value);
  return list;
}

void discard_fake_tensors(PyObject *set) {
  const Owned elements(PySequence_List(set));
  for (Py_ssize_t i = 0; elements && i < PyList_GET_SIZE(elements.get()); ++i)
    if (PyObject *element = PyList_GET_ITEM(elements.get(), i); is_fake_tensor(element))
      PySet_Discard(set, element);
  PyErr_Clear();
}

} // namespace

void restore(const Change &change, const Graph &graph) {
  const Container &c = graph.containers[change.container];
  PyObject *owner = owner_of(change, graph);
  if (c.place == Place::deque || (c.place == Place::items && c.counted && c.rewritten)) {
    if (const Owned before = elements_before(c))
      refill(owner, before.get());
  } else if (c.place == Place::items && change.slot < 0) {
    PyList_SetSlice(owner, c.length, Py_SIZE(owner), nullptr);
  } else {
    store(change, graph, change.slot < 0 ? nullptr : c.slots[change.slot].value);
  }
  PyErr_Clear();
}

void take_back_fake_tensors(const Change &change, const Graph &graph) {
  if (graph.containers[change.container].place == Place::set)
    discard_fake_tensors(owner_of(change, graph));
  else
    restore(change, graph);
}

bool is_check_of_optimizer(PyObject *name) {
  return name && PyUnicode_CheckExact(name) &&
         PyUnicode_CompareWithASCIIString(name, "_need_device_dtype_check_for_fused") == 0;
}

bool is_made_eagerly(PyObject *value) {
  return Allocations::any_made_aside() && leads_to(value, Allocations::made_aside);
}

} // namespace tracehost::python
