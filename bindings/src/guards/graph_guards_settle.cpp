#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/graph_guards.h"
#include "guards/number_slots.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

/// The full pass over the guards: containers in order, holders first. Names of a dict that has
/// changed are read again.

namespace tracehost::python {

bool GraphGuards::settle(PyObject *const *arguments) {
  free_replaced();
  settled_ = false;
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    Object &o = graph_.objects[i];
    if (o.argument >= 0) {
      if (!o.typed && !o.alike && !holds(root_nodes_[i], arguments[o.argument]))
        return false;
      o.object = arguments[o.argument];
    } else if (o.container < 0 && o.weak && !referent(o.object)) {
      return false;
    }
  }
  for (std::size_t c = 0; c < graph_.containers.size(); ++c)
    if (!settle(c))
      return false;
  if (!ties_hold())
    return false;
  compile();
  settled_ = true;
  return true;
}

bool GraphGuards::settle(std::size_t index) {
  Container &c = graph_.containers[index];
  const Object &o = graph_.objects[c.object];
  PyObject *owner = present(o);
  if (!owner || Py_TYPE(owner) != o.type)
    return false;
  if (has_dict(c.place)) {
    PyObject *dict = dict_of(c.place, owner);
    if (!dict) {
      moved_ |= c.by_name; // checks of its names are left
      c.dict = nullptr;
      c.seen = {};
      c.by_name = false;
      for (Slot &s : c.slots)
        if (!matches(s, nullptr))
          return false;
      return true;
    }
    if (dict == c.dict && !c.by_name && c.seen.same() && !keeps_order(index, owner))
      return true;
    follow_dict(c, dict);
    moved_ |= c.by_name && dict != c.dict;
    const DictSeen now = c.now();
    const bool same = c.place == Place::entries && !c.open ? settle_entries(index, dict)
                      : c.open
                          ? [&] {
                              for (Slot &s : c.slots)
                                if (!settle(c, s, read(c, s, owner, dict)))
                                  return false;
                              return true;
                            }()
                          : settle_names(index, dict);
    // A user's __eq__ may have changed it meanwhile.
    if (!same || !now.same())
      return false;
    c.dict = dict;
    c.seen = now;
    return !c.by_name || holds_names(index, dict);
  }
  if (c.place == Place::keys && !PyODict_Check(owner)) {
    follow_dict(c, owner);
    if (!c.by_name)
      return settle_keys(c, owner);
    c.dict = nullptr;
  }
  if (c.counted && length_of(c.place, owner) != c.length)
    return false;
  for (Slot &s : c.slots) {
    PyObject *now = read(c, s, owner, nullptr);
    if (!settle(c, s, now) || (now && read(c, s, owner, nullptr) != now))
      return false;
  }
  return true;
}

/// matches(), and keeps the value where no dict vouches for it.
bool GraphGuards::settle(const Container &c, Slot &s, PyObject *now) {
  const Owned alive(Py_XNewRef(now)); // a user's __eq__ may take it away
  if (!matches(s, now))
    return false;
  if (is_kept(c))
    keep(c, s);
  return true;
}

/// Follows the dict, before it is read.
void GraphGuards::follow_dict(Container &c, PyObject *dict) {
  if (c.watch.follows(dict))
    return;
  std::vector<PyObject *> names;
  bool whole = !c.open;
  for (const Slot &s : c.slots)
    if (s.key && PyUnicode_CheckExact(s.key))
      names.push_back(s.key);
    else
      whole = true;
  const bool by_name = !c.watch.start(dict, names, whole);
  moved_ |= by_name != c.by_name; // it needs other checks
  c.by_name = by_name;
}

/// One walk for all keys, whose places stay while the dict does.
bool GraphGuards::settle_keys(Container &c, PyObject *dict) {
  if (dict == c.dict && c.seen.same())
    return true;
  const DictSeen now = c.watch.now();
  std::vector<PyObject *> keys; // borrowed: `now` shows whether the dict has them still
  for (Entries entries(dict); entries.next();)
    keys.push_back(entries.key());
  for (Slot &s : c.slots) {
    const auto at = static_cast<std::size_t>(s.index);
    if (!settle(c, s, at < keys.size() ? keys[at] : nullptr) || !now.same())
      return false;
  }
  c.dict = dict;
  c.seen = now;
  return now.same();
}

bool GraphGuards::settle_entries(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  if (PyDict_GET_SIZE(dict) != c.length)
    return false;
  const std::vector<Item> &items = items_[index];
  const DictSeen now = c.now();
  std::size_t i = 0;
  for (Entries entries(dict); i < items.size() && entries.next(); ++i) {
    const Item &item = items[i];
    if (entries.key() != item.key && !holds_key(item, entries.key()))
      return false;
    if (!settle(c, c.slots[item.slot], entries.value()) || !now.same())
      return false;
  }
  return i == items.size();
}

/// Whether another object is the same key.
bool GraphGuards::holds_key(const Item &item, PyObject *key) {
  if (!item.key)
    return holds(item.node, key);
  if (Py_TYPE(key) != Py_TYPE(item.key))
    return false;
  const int same = PyObject_RichCompareBool(key, item.key, Py_EQ);
  if (same < 0)
    forget_error();
  return same == 1;
}

bool GraphGuards::settle_names(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  const std::vector<Item> &items = items_[index];
  if (static_cast<Py_ssize_t>(items.size()) != PyDict_GET_SIZE(dict) || items.empty())
    return learn_names(index, dict);
  const DictSeen now = c.now();
  PyObject *key, *value;
  std::size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); ++i) {
    if (items[i].key != key)
      return learn_names(index, dict);
    const std::int32_t slot = items[i].slot;
    if (slot >= 0 && (!settle(c, c.slots[slot], value) || !now.same()))
      return false;
  }
  return true;
}

bool GraphGuards::learn_names(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  std::vector<Item> fresh;
  std::vector<bool> seen(c.slots.size());
  const DictSeen now = c.now();
  bool same = true;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; same && PyDict_Next(dict, &at, &key, &value);) {
    std::int32_t slot = -1;
    for (std::size_t s = 0; slot < 0 && s < c.slots.size(); ++s)
      if (c.slots[s].key == key)
        slot = static_cast<std::int32_t>(s);
    for (std::size_t s = 0; slot < 0 && s < c.slots.size(); ++s)
      if (PyUnicode_CheckExact(key) && PyUnicode_Compare(c.slots[s].key, key) == 0)
        slot = static_cast<std::int32_t>(s); // the key is not interned
    fresh.push_back({Py_NewRef(key), slot, {}, {}});
    if (slot < 0) {
      same = false; // it was not there at the trace
      continue;
    }
    seen[slot] = true;
    same = settle(c, c.slots[slot], value) && now.same();
  }
  for (std::size_t s = 0; same && s < c.slots.size(); ++s)
    same = seen[s] || settle(c, c.slots[s], nullptr);
  if (same)
    std::swap(items_[index], fresh);
  for (Item &item : fresh)
    Py_DECREF(item.key);
  return same;
}

bool GraphGuards::matches(Slot &s, PyObject *now) {
  switch (s.expect) {
  case Expect::any:
    break;
  case Expect::leaf:
    if (!holds(s.node, now))
      return false;
    break;
  case Expect::object:
    if (!holds(s.node, now))
      return false;
    if (s.primary) {
      moved_ |= graph_.objects[s.object].object != now;
      graph_.objects[s.object].object = now;
    }
    break;
  case Expect::container:
    if (!now || Py_TYPE(now) != s.type)
      return false;
    if (s.primary) {
      // A tuple has no check of its own where a dict vouches for it, so at the same address ...
      moved_ |= graph_.objects[s.object].object != now || PyTuple_Check(now);
      graph_.objects[s.object].object = now;
    }
    break;
  case Expect::number:
    if (!now || Py_TYPE(now) != s.type || !set_number(s.capture, now))
      return false;
    break;
  case Expect::tensor:
  case Expect::same:
  case Expect::capture:
    if (!now || !is_tensor(now))
      return false;
    if (s.expect == Expect::capture)
      captures_[s.capture] = now;
    if (s.primary) {
      moved_ |= graph_.objects[s.object].object != now;
      graph_.objects[s.object].object = now;
    }
    break;
  }
  s.value = now;
  return true;
}

/// False for an int beyond int64.
bool GraphGuards::set_number(std::int32_t capture, PyObject *now) {
  at::Tensor number = tensor_of_python_number(now);
  PyObject *tensor = number.defined() ? THPVariable_Wrap(std::move(number)) : nullptr;
  if (!tensor) {
    forget_error();
    return false;
  }
  if (held_[capture])
    replaced_.emplace_back(held_[capture]);
  held_[capture] = captures_[capture] = tensor;
  return true;
}

void GraphGuards::free_replaced() { const std::vector<Owned> freed = std::exchange(replaced_, {}); }

/// After matches(), where no dict vouches for the value.
void GraphGuards::keep(const Container &c, Slot &s) {
  PyObject *old = s.keep;
  if (are_own_defaults(c, s)) {
    s.keep = Py_NewRef(s.value);
  } else if (!s.value || s.expect == Expect::any || s.expect == Expect::container ||
             s.expect == Expect::tensor) {
    s.keep = nullptr;
  } else if (c.place == Place::globals && !c.by_name && is_tensor(s.value)) {
    s.keep = nullptr; // swap_tensors() rejects one with weak references: it is settled again
  } else if (Py_TYPE(s.value)->tp_weaklistoffset == 0) {
    s.keep = Py_NewRef(s.value);
  } else {
    Py_INCREF(s.value); // the allocation may collect
    s.keep = PyWeakref_NewRef(s.value, nullptr);
    Py_DECREF(s.value);
    if (!s.keep) {
      forget_error();
      s.value = nullptr; // compare again next time
    }
  }
  Py_XDECREF(old);
}

} // namespace tracehost::python
