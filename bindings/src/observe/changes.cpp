#include "observe/changes.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "guards/elements.h"
#include "numbers/traced_number.h"
#include "observe/allocations.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
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
  Comparison(const Graph &graph, const std::unordered_set<PyObject *> &given, bool stores)
      : graph_(graph), given_(given), stores_(stores) {}

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
    Change &change = found_.emplace_back();
    change.container = container;
    change.slot = slot;
    change.key = Owned(Py_XNewRef(key));
    change.now = Owned(Py_XNewRef(now));
    change.has_tensor = tensor;
    change.has_number = number;
  }

  void compare(int container) {
    const Container &c = graph_.containers[container];
    PyObject *owner = graph_.objects[c.object].object;
    PyObject *dict = dict_of(c.place, owner);
    const bool ordered = c.place == Place::entries && !c.open;
    if (dict && dict == c.dict && c.seen.same() && !(stores_ && c.stored) &&
        !(ordered && c.rewritten && PyODict_Check(owner)))
      return; // no event says that an OrderedDict's order has changed
    if (is_rewritten(c, owner))
      return rewritten(container, owner);
    const std::size_t before = found_.size();
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      PyObject *now = read(c, c.slots[s], owner, dict);
      const bool same = unchanged(c.slots[s], now);
      if (same && !(now && is_stored(c, c.slots[s])))
        continue;
      add(container, static_cast<int>(s), c.slots[s].key, now);
      found_.back().same = same;
    }
    if (c.place == Place::set && c.counted && length_of(c.place, owner) != c.length)
      add(container, -1, nullptr, new_elements(c, owner).get());
    if ((c.place == Place::items || c.place == Place::deque) && c.counted &&
        Py_SIZE(owner) > c.length) {
      if (!c.open && found_.size() > before) {
        found_.erase(found_.begin() + static_cast<std::ptrdiff_t>(before), found_.end());
        return rewritten(container, owner);
      }
      grown(container, owner, found_.size() == before);
    }
    if (!c.open && dict)
      appeared(container, dict);
    if (c.place == Place::entries)
      in_order(container, owner, before, ordered);
  }

  /// Whether a hit may find another value in a slot, which this one replaces.
  bool is_stored(const Container &c, const Slot &slot) const {
    return stores_ && slot.stored && !slot.read && !slot.joined && slot.expect == Expect::leaf &&
           !graph_.objects[c.object].library;
  }

  /// Whether slots no longer say where the elements of a list or deque are.
  static bool is_rewritten(const Container &c, PyObject *owner) {
    return (c.place == Place::items || c.place == Place::deque) && !PyTuple_Check(owner) &&
           !c.open && (c.rewritten || Py_SIZE(owner) < c.length);
  }

  /// One change for all elements. One that was there before is found by its place, if the body has
  /// it from nowhere else: a constant or another slot may hold the same object.
  void rewritten(int container, PyObject *owner) {
    const Container &c = graph_.containers[container];
    const Owned now(PySequence_List(owner)), fresh(PyList_New(0));
    if (!now || !fresh)
      return forget_error();
    std::vector<const Slot *> before(static_cast<std::size_t>(c.length));
    std::unordered_map<PyObject *, int> places;
    for (const Slot &s : c.slots) {
      if (!s.value || s.index < 0 || s.index >= c.length)
        continue;
      before[static_cast<std::size_t>(s.index)] = &s;
      if (!is_plain(Py_TYPE(s.value), s.value) && is_there_once(s.value))
        places.emplace(s.value, s.index);
    }
    std::vector<int> from;
    bool same = PyList_GET_SIZE(now.get()) == c.length;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(now.get()); ++i) {
      PyObject *item = PyList_GET_ITEM(now.get(), i);
      const Slot *slot = i < c.length ? before[static_cast<std::size_t>(i)] : nullptr;
      const bool stays = slot && slot->value == item && !slot->input;
      const auto place = places.find(item);
      from.push_back(stays && slot->restored ? static_cast<int>(i)
                     : place != places.end() ? place->second
                                             : -1);
      if (from.back() < 0)
        PyList_Append(fresh.get(), item);
      same = same && stays && from.back() == i;
    }
    if (same)
      return;
    add(container, -1, nullptr, now.get());
    Change &change = found_.back();
    change.rewrites = true;
    change.from = std::move(from);
    change.added = Owned(PyList_AsTuple(fresh.get()));
  }

  /// Whether one slot alone holds the object, and no argument is it.
  bool is_there_once(PyObject *object) {
    if (counts_.empty()) {
      for (const Container &c : graph_.containers)
        for (const Slot &s : c.slots)
          ++counts_[s.value];
      for (const Object &o : graph_.objects)
        counts_[o.object] += o.container < 0;
    }
    return counts_[object] == 1 && !given_.contains(object);
  }

  /// Brings the changes of a dict, from the one numbered `first` on, into the order in which hits
  /// store: what is gone, then the entries as they follow each other now. `moves`: some may have
  /// moved.
  void in_order(int container, PyObject *dict, std::size_t first, bool moves) {
    const Container &c = graph_.containers[container];
    if (!moves && found_.size() < first + 2)
      return;
    const Owned before(moves ? PyDict_New() : nullptr);
    if (before)
      for (const Slot *s : in_their_order(c))
        PyDict_SetItem(before.get(), s->key, Py_None);
    std::vector<Change> sorted;
    const Owned numbers(PyDict_New()); // of the changes, by key
    for (std::size_t i = first; numbers && i < found_.size(); ++i) {
      const Owned number(PyLong_FromSize_t(i));
      if (!found_[i].now || !found_[i].key)
        sorted.push_back(std::move(found_[i]));
      else if (number)
        PyDict_SetItem(numbers.get(), found_[i].key.get(), number.get());
    }
    std::optional<OrderKept> order;
    if (before)
      order.emplace(before.get());
    for (Entries entries(dict); numbers && entries.next();) {
      const bool moved = order && !order->keeps(entries.key()) &&
                         PyDict_Contains(before.get(), entries.key()) == 1;
      if (PyObject *number = PyDict_GetItemWithError(numbers.get(), entries.key()))
        sorted.push_back(std::move(found_[PyLong_AsSize_t(number)]));
      else if (moved)
        sorted.push_back(of_entry(container, entries.key(), entries.value()));
      else
        continue;
      sorted.back().moved = moved;
    }
    forget_error();
    found_.erase(found_.begin() + static_cast<std::ptrdiff_t>(first), found_.end());
    std::move(sorted.begin(), sorted.end(), std::back_inserter(found_));
  }

  /// What was in a dict before, as far as slots say so.
  static std::vector<const Slot *> in_their_order(const Container &c) {
    std::vector<const Slot *> slots;
    for (const Slot &s : c.slots)
      if (s.value && s.key)
        slots.push_back(&s);
    std::sort(slots.begin(), slots.end(),
              [](const Slot *a, const Slot *b) { return a->index < b->index; });
    return slots;
  }

  /// An entry that has only moved.
  Change of_entry(int container, PyObject *key, PyObject *value) {
    const Container &c = graph_.containers[container];
    const auto slot = std::find_if(c.slots.begin(), c.slots.end(),
                                   [&](const Slot &s) { return s.key && is_key(s.key, key); });
    add(container, static_cast<int>(slot - c.slots.begin()), key, value);
    Change made = std::move(found_.back());
    found_.pop_back();
    return made;
  }

  static bool is_key(PyObject *a, PyObject *b) {
    const int same = a == b ? 1 : PyObject_RichCompareBool(a, b, Py_EQ);
    forget_error();
    return same == 1;
  }

  /// What a set has that no slot holds.
  static Owned new_elements(const Container &c, PyObject *owner) {
    Owned made(PyList_New(0));
    const Owned all(PySequence_List(owner)); // a copy: it asks no element for its hash
    for (Py_ssize_t i = 0; made && all && i < PyList_GET_SIZE(all.get()); ++i) {
      PyObject *element = PyList_GET_ITEM(all.get(), i);
      if (std::none_of(c.slots.begin(), c.slots.end(),
                       [element](const Slot &s) { return s.value == element; }))
        PyList_Append(made.get(), element);
    }
    forget_error();
    return made;
  }

  void grown(int container, PyObject *owner, bool kept) {
    for (Py_ssize_t i = graph_.containers[container].length; i < Py_SIZE(owner); ++i) {
      const Owned element(PySequence_GetItem(owner, i)); // a list's or deque's own
      add(container, -1, nullptr, element.get());
      found_.back().appended = kept;
      found_.back().place = i;
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
    forget_error();
  }

  const Graph &graph_;
  const std::unordered_set<PyObject *> &given_;
  const bool stores_;
  std::unordered_map<PyObject *, int> counts_; ///< in how many places objects are
  std::vector<Change> found_;
};

} // namespace

std::vector<Change> changes_of(const Graph &graph, const std::unordered_set<PyObject *> &given,
                               bool stores) {
  return Comparison(graph, given, stores).run();
}

std::string path_of(const Change &change, const Graph &graph) {
  const Container &c = graph.containers[change.container];
  if (change.slot >= 0)
    return graph.path(change.container, change.slot);
  return change.key ? graph.path(change.container, change.key.get())
                    : graph.prefix(c.object) + graph.suffix(c.object);
}

void visit_stored(const Change &change, const std::function<void(PyObject *)> &visit) {
  leads_to(change.rewrites ? change.added.get() : change.now.get(), [&](PyObject *object) {
    visit(object);
    return false;
  });
}

PyObject *owner_of(const Change &change, const Graph &graph) {
  return graph.objects[graph.containers[change.container].object].object;
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

} // namespace

void store(const Change &change, const Graph &graph, PyObject *value) {
  const Container &c = graph.containers[change.container];
  PyObject *owner = owner_of(change, graph);
  if (change.rewrites) {
    if (const Owned before = elements_before(c))
      if (const Owned after = rearranged(change.from, before.get(), value))
        static_cast<void>(refill(owner, after.get()));
    return forget_error();
  }
  if (change.appended) {
    if (change.place < Py_SIZE(owner))
      PySequence_SetItem(owner, change.place, value);
    return forget_error();
  }
  const int index = change.slot < 0 ? -1 : c.slots[change.slot].index;
  if (!write(c.place, change.key.get(), index, owner_of(change, graph), value))
    forget_error(); // something else has taken it away
}

bool stores_fake_tensor(const Change &change, const Graph &graph) {
  const auto is_fake = [](PyObject *object) { return is_tensor(object) && is_fake_tensor(object); };
  const Container &c = graph.containers[change.container];
  if (c.place == Place::set || c.place == Place::deque) { // which elements are new is unknown
    const Owned elements(PySequence_List(owner_of(change, graph)));
    forget_error();
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

namespace {

void discard_fake_tensors(PyObject *set) {
  const Owned elements(PySequence_List(set));
  for (Py_ssize_t i = 0; elements && i < PyList_GET_SIZE(elements.get()); ++i)
    if (PyObject *element = PyList_GET_ITEM(elements.get(), i); is_fake_tensor(element))
      PySet_Discard(set, element);
  forget_error();
}

} // namespace

void restore(const Change &change, const Graph &graph) {
  const Container &c = graph.containers[change.container];
  PyObject *owner = owner_of(change, graph);
  if (c.place == Place::deque || change.rewrites) {
    if (const Owned before = elements_before(c))
      static_cast<void>(refill(owner, before.get()));
  } else if (c.place == Place::items && change.slot < 0) {
    PyList_SetSlice(owner, c.length, Py_SIZE(owner), nullptr);
  } else {
    store(change, graph, change.slot < 0 ? nullptr : c.slots[change.slot].value);
  }
  forget_error();
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
