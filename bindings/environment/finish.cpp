#include "environment/finish.h"

#include "births.h"
#include "environment/gil.h"
#include "environment/known.h"
#include "environment/watch.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

namespace tracehost::python {

namespace {

/// Sets the package's TraceError. Cold: looked up by import.
void set_trace_error(const std::string &message) {
  Owned errors(PyImport_ImportModule("tracehost._errors"));
  Owned type(errors ? PyObject_GetAttrString(errors.get(), "TraceError") : nullptr);
  PyErr_Clear();
  PyErr_SetString(type ? type.get() : PyExc_RuntimeError, message.c_str());
}

/// Whether a value is a tensor or a list, tuple or dict with one in it.
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

/// Whether a value is, or leads to by elements and attributes, a tensor that a lifted block made.
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

} // namespace

Finish::Finish(Walker &walker, const Ran &ran, std::span<PyObject *const> captured)
    : walker_(walker), graph_(walker.graph()), ran_(ran), captured_(captured),
      held_(captured.size()) {}

std::shared_ptr<Environment> Finish::run(bool watch_values, std::vector<SideEffect> &side_effects) {
  mark_captures();
  for (std::size_t c = 0; c < graph_.containers.size(); ++c)
    if (!inspect(static_cast<int>(c)))
      return nullptr;
  drop_below();
  // `self.weight`, an attribute, may have become a parameter of the module: one change in two
  // dicts.
  if (!lifted_into_.empty() && !gone_.empty())
    lifted_into_ = gone_.front().path;
  else
    std::move(gone_.begin(), gone_.end(), std::back_inserter(effects_));
  side_effects = std::move(effects_);
  return environment(watch_values);
}

/// Marks each capture's slot and those on the way to it.
void Finish::mark_captures() {
  std::unordered_map<PyObject *, std::int32_t> captures;
  for (std::size_t i = 0; i < captured_.size(); ++i) {
    captures.emplace(captured_[i], static_cast<std::int32_t>(i));
    const Walker::Position *at = walker_.tensor(captured_[i]);
    if (!at) {
      held_[i] = captured_[i];
      continue;
    }
    Slot *slot = &graph_.containers[at->container].slots[at->slot];
    slot->expect = Expect::capture;
    slot->capture = static_cast<std::int32_t>(i);
    slot->needed = true;
    for (int object = graph_.containers[at->container].object;
         graph_.objects[object].container >= 0;) {
      const Object &o = graph_.objects[object];
      graph_.containers[o.container].slots[o.slot].needed = true;
      object = graph_.containers[o.container].object;
    }
  }
  // A second path to the same tensor must go on leading there.
  for (Container &c : graph_.containers)
    for (Slot &s : c.slots)
      if (s.expect == Expect::tensor)
        if (const auto found = captures.find(s.value);
            found != captures.end() && !held_[found->second]) {
          s.expect = Expect::same;
          s.capture = found->second;
        }
}

// ---- what changed -------------------------------------------------------------------------------

bool Finish::inspect(int container) {
  Container &c = graph_.containers[container];
  PyObject *owner = graph_.objects[c.object].object;
  if (has_dict(c.place)) {
    PyObject *dict = dict_of(c.place, owner);
    if (dict && dict == c.dict && version(dict) == c.tag)
      return true;
    return inspect_dict(container, dict);
  }
  for (std::size_t s = 0; s < c.slots.size(); ++s) {
    PyObject *now = read(c, c.slots[s], owner, nullptr);
    if (!unchanged(c.slots[s], now) && !changed(container, &c.slots[s], c.slots[s].key, now))
      return false;
  }
  if (c.place == Place::set && PySet_GET_SIZE(owner) != c.length && !c.open)
    return changed(container, nullptr, nullptr, nullptr);
  if (c.place == Place::items && Py_SIZE(owner) != c.length && !c.open) {
    PyObject *added = Py_SIZE(owner) > c.length ? PySequence_Fast_ITEMS(owner)[c.length] : nullptr;
    return changed(container, nullptr, nullptr, added);
  }
  return true;
}

bool Finish::inspect_dict(int container, PyObject *dict) {
  Container &c = graph_.containers[container];
  PyObject *owner = graph_.objects[c.object].object;
  for (Slot &slot : c.slots) {
    PyObject *now = read(c, slot, owner, dict);
    if (unchanged(slot, now))
      continue;
    if (!now && c.place == Place::entries) {
      c.open = true; // it shrank; said below, once
      slot.expect = Expect::any;
    } else if (!changed(container, &slot, slot.key, now)) {
      return false;
    }
  }
  if (c.place == Place::globals || !dict)
    return true;
  if (c.place == Place::entries) {
    const bool shrank = c.open;
    c.open = false;
    if (!shrank && PyDict_GET_SIZE(dict) == c.length)
      return true;
    PyObject *key = nullptr, *value = nullptr, *added = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
      bool before = false;
      for (const Slot &s : c.slots)
        before |= s.key == key;
      if (!before && (!added || has_tensor(value)))
        added = value;
    }
    return changed(container, nullptr, nullptr, added);
  }
  // Names that appeared.
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
    if (!walker_.counts(c, key))
      continue;
    bool before = false;
    for (const Slot &s : c.slots)
      before |= s.key == key || PyUnicode_Compare(s.key, key) == 0;
    if (before)
      continue;
    if (!changed(container, nullptr, key, value))
      return false;
    Slot slot; // the names of this container are all told; this one may hold anything
    slot.key = Py_NewRef(key);
    slot.expect = Expect::any;
    c.slots.push_back(std::move(slot));
  }
  return true;
}

/// `slot` null: something was added to the container (under `key`), or removed.
bool Finish::changed(int container, Slot *slot, PyObject *key, PyObject *now) {
  Container &c = graph_.containers[container];
  PyObject *owner = graph_.objects[c.object].object;
  const bool attribute = !is_collection(c.place);
  const std::string path = slot  ? graph_.path(container, static_cast<int>(slot - c.slots.data()))
                           : key ? graph_.path(container, key)
                                 : graph_.prefix(c.object) + graph_.suffix(c.object);
  if (is_lifted(now)) {
    lifted_into_ = path;
    return true;
  }
  Site where, again;
  const Store store = store_of(c, slot, owner);
  PyObject *name = attribute || c.module ? key : nullptr;
  const bool by_body = find_store(ran_.body, store, name, where);
  const bool by_call = ran_.calls && (!by_body || find_store(ran_.called, store, name, again));
  if (!by_body && !by_call) {
    set_trace_error(path +
                    " changed during the trace, but no code that ran can store to it: another "
                    "thread changed it. Nothing was published; call again.");
    return false;
  }
  if (by_body && has_tensor(now) &&
      (slot || attribute || c.module)) // a collection may grow, as by any value
    return refuse_tensor(path, where);
  if (slot && slot->needed)
    return true; // watched as it was before: a later call finds it different
  if (!by_call)
    (now || !attribute ? effects_ : gone_).push_back({path, where});
  if (slot)
    slot->expect = Expect::any;
  else
    c.open = !attribute;
  return true;
}

bool Finish::refuse_tensor(const std::string &path, const Site &where) {
  const std::string line = where.line ? " (" + text(where) + ")" : "";
  set_trace_error("the body rebinds " + path + " to a tensor" + line +
                  "; tracehost cannot yet write it back on later calls. Update it in place (" +
                  path + ".copy_(...)), or return it and assign it outside the function.");
  return false;
}

/// What was reached only through a slot that is given up is not watched either.
void Finish::drop_below() {
  dropped_.assign(graph_.objects.size(), false);
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    const Object &o = graph_.objects[i];
    if (o.container < 0)
      continue;
    const Container &c = graph_.containers[o.container];
    dropped_[i] = dropped_[c.object] || c.slots[o.slot].expect == Expect::any;
  }
}

// ---- the Environment ----------------------------------------------------------------------------

std::shared_ptr<Environment> Finish::environment(bool watch_values) {
  Graph graph;
  std::vector<std::int32_t> containers(graph_.containers.size(), -1);
  std::vector<bool> used(graph_.objects.size(), false); // else nothing is read through it

  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &from = graph_.containers[i];
    if (dropped_[from.object])
      continue;
    const bool typed = graph_.objects[from.object].typed;
    const bool watch = watch_values && !typed;
    Container c;
    c.place = from.place;
    c.open = from.open || !watch;
    c.all = from.all;
    c.module = from.module;
    c.object = from.object;
    c.length = from.length;
    for (const Slot &s : from.slots) {
      if (!watch && !s.needed)
        continue;
      if (s.expect == Expect::any && (c.open || c.place == Place::globals || !has_dict(c.place)))
        continue;
      Slot slot = s;
      slot.value = nullptr;
      slot.keep = nullptr;
      if (typed && slot.expect == Expect::object)
        slot.expect = Expect::container; // any of its class, on the way to a capture
      if (slot.expect != Expect::container)
        slot.type = nullptr;
      if (slot.object >= 0 && (slot.expect == Expect::any || dropped_[slot.object])) {
        slot.object = -1;
        slot.primary = false;
        if (slot.expect == Expect::object)
          slot.expect = Expect::leaf;
      }
      if (slot.primary) {
        graph_.objects[slot.object].container = static_cast<std::int32_t>(graph.containers.size());
        graph_.objects[slot.object].slot = static_cast<std::int32_t>(c.slots.size());
      }
      Py_XINCREF(slot.key);
      Py_XINCREF(reinterpret_cast<PyObject *>(slot.type));
      c.slots.push_back(std::move(slot));
    }
    const bool counts = watch && (c.place == Place::instance || c.place == Place::names ||
                                  (is_collection(c.place) && !c.open));
    if (c.slots.empty() && !counts)
      continue;
    used[c.object] = true;
    graph.containers.push_back(std::move(c));
  }

  // Renumber the objects that are left.
  std::vector<std::int32_t> numbers(graph_.objects.size(), -1);
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    if (!used[i])
      continue;
    numbers[i] = static_cast<std::int32_t>(graph.objects.size());
    Object o = graph_.objects[i];
    Py_INCREF(reinterpret_cast<PyObject *>(o.type));
    if (o.container < 0 && o.argument < 0) {
      if (o.weak)
        o.object = PyWeakref_NewRef(o.object, nullptr);
      else
        Py_INCREF(o.object);
    } else if (o.container >= 0) {
      o.object = nullptr;
    }
    graph.objects.push_back(std::move(o));
  }
  for (Container &c : graph.containers) {
    c.object = numbers[c.object];
    for (Slot &s : c.slots)
      if (s.object >= 0 && (s.object = numbers[s.object]) < 0) {
        s.primary = false; // nothing is read below it
        if (s.expect == Expect::object)
          s.expect = Expect::leaf;
      }
  }
  for (PyObject *tensor : held_)
    Py_XINCREF(tensor);
  return std::make_shared<Watch>(
      std::move(graph), watch_values ? Py_NewRef(walker_.name_set()) : nullptr, std::move(held_));
}

} // namespace tracehost::python
