#include "guards/watch.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/number_slots.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace tracehost::python {

namespace {

/// Whether the slot, of a container without a version tag, holds the value it held.
inline bool holds_still(const Slot &s, PyObject *now) {
  if (s.expect == Expect::any)
    return true;
  if (now != s.value)
    return false;
  if (s.keep == now)
    return true; // kept by us, or nothing as before
  if (s.keep)
    return reinterpret_cast<PyWeakReference *>(s.keep)->wr_object == now;
  // Of a list, tuple or dict the elements are checked; of a tensor that is no input, only the kind.
  return s.expect == Expect::container ? Py_TYPE(now) == s.type
                                       : s.expect == Expect::tensor && is_tensor(now);
}

} // namespace

Watch::Watch(Graph graph, bool watches, std::vector<PyObject *> captured,
             std::vector<Rebinding> rebindings, std::vector<std::int32_t> handed_out)
    : graph_(std::move(graph)), watches_(watches), items_(graph_.containers.size()),
      root_nodes_(graph_.objects.size()), captures_(captured), held_(std::move(captured)),
      rebindings_(std::move(rebindings)), handed_out_(std::move(handed_out)) {
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    Object &o = graph_.objects[i];
    if (o.argument >= 0) {
      if (!o.typed && !o.alike) // else another may come; the arguments were compared already
        root_nodes_[i] =
            o.instance ? weak_leaf(o.object, root_atoms_) : leaf(o.object, root_atoms_);
      o.object = nullptr;
    }
  }
  for (std::size_t i = 0; i < graph_.objects.size(); ++i)
    if (graph_.objects[i].alike)
      alike_.push_back(static_cast<std::int32_t>(i));
  for (std::size_t c = 0; c < graph_.containers.size(); ++c) {
    Container &container = graph_.containers[c];
    for (std::size_t s = 0; s < container.slots.size(); ++s) {
      const Slot &slot = container.slots[s];
      if (slot.expect == Expect::same || (slot.object >= 0 && !slot.primary))
        ties_.emplace_back(c, s);
    }
    if (container.place != Place::entries || container.open)
      continue;
    std::vector<std::size_t> order; // in the dict; what was not there has no place
    for (std::size_t s = 0; s < container.slots.size(); ++s)
      if (container.slots[s].index >= 0)
        order.push_back(s);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return container.slots[a].index < container.slots[b].index;
    });
    for (const std::size_t s : order) {
      // A key that may hold other things is not kept alive.
      Item item{container.slots[s].key, static_cast<std::int32_t>(s), {}, {}};
      if (may_hold(item.key)) {
        std::vector<AtomRef> atoms;
        item.node = leaf_of(item.key, atoms);
        item.atom = atoms.front();
        Py_CLEAR(container.slots[s].key);
        item.key = nullptr;
      }
      Py_XINCREF(item.key);
      items_[c].push_back(std::move(item));
    }
  }
  checks_.reserve(graph_.containers.size() + graph_.objects.size());
}

Watch::~Watch() {
  if (!python_alive()) {
    for (Rebinding &r : rebindings_)
      r.key.release();
    for (Owned &number : shown_)
      number.release();
    for (Owned &number : replaced_)
      number.release();
    return;
  }
  const WithGil gil;
  const KeepError kept;
  for (Container &c : graph_.containers)
    for (Slot &s : c.slots) {
      Py_XDECREF(s.key);
      Py_XDECREF(s.keep);
      Py_XDECREF(s.answer);
      Py_XDECREF(reinterpret_cast<PyObject *>(s.type));
    }
  for (Object &o : graph_.objects) {
    if (o.container < 0 && o.argument < 0)
      Py_XDECREF(o.object);
    Py_XDECREF(reinterpret_cast<PyObject *>(o.type));
  }
  for (auto &list : items_)
    for (Item &item : list)
      Py_XDECREF(item.key);
  for (PyObject *tensor : held_)
    Py_XDECREF(tensor);
  rebindings_.clear();
  replaced_.clear();
}

// ---- the fast way -------------------------------------------------------------------------------

/// Index of the first check from `from` on that fails, or their number.
std::size_t Watch::first_changed(PyObject *const *arguments, std::size_t from) const {
  const std::size_t count = checks_.size();
  for (std::size_t i = from; i < count; ++i) {
    const Check &check = checks_[i];
    switch (check.kind) {
    case Check::dict_only:
      if (version(check.dict) != check.tag)
        return i;
      break;
    case Check::instance:
      if (Py_TYPE(check.object) != check.type ||
          reinterpret_cast<PyObject **>(check.object)[check.anchor] != check.dict ||
          (check.dict && version(check.dict) != check.tag))
        return i;
      break;
    case Check::argument:
      if (arguments[check.index] != check.object || Py_TYPE(check.object) != check.type)
        return i;
      break;
    case Check::weak_root:
      if (referent(graph_.objects[check.index].object) != check.object)
        return i;
      break;
    case Check::slots: {
      const Container &c = graph_.containers[check.index];
      if (c.counted && length_of(c.place, check.object) != c.length)
        return i;
      for (const Slot &s : c.slots)
        if (!holds_still(s, read(c, s, check.object, nullptr)))
          return i;
      break;
    }
    case Check::order:
      if (!is_in_order(check.index, check.object))
        return i;
      break;
    case Check::items: {
      const Container &c = graph_.containers[check.index];
      const Py_ssize_t size = Py_SIZE(check.object);
      if (c.counted && size != c.length)
        return i;
      PyObject **values = PySequence_Fast_ITEMS(check.object);
      for (const Slot &s : c.slots)
        if (!holds_still(s, s.index < size ? values[s.index] : nullptr))
          return i;
      break;
    }
    }
  }
  return count;
}

/// From a failed check on: reads again the containers that changed, as long as every object stays
/// where the checks have it; else all.
bool Watch::follow(PyObject *const *arguments, std::size_t at) {
  if (!replaced_.empty()) {
    free_replaced();
    if (!settled_)
      return settle(arguments);
    at = first_changed(arguments, 0);
  }
  moved_ = false;
  for (; at < checks_.size(); at = first_changed(arguments, at + 1)) {
    Check &check = checks_[at];
    if (check.kind == Check::argument || check.kind == Check::weak_root)
      return settle(arguments);
    const Container &c = graph_.containers[check.index];
    const bool same = settle(static_cast<std::size_t>(check.index));
    // A user's __eq__ may have called this very function.
    if (moved_ || !settled_)
      return settle(arguments);
    if (!same)
      return false; // this check goes on failing until it is the same again
    check.dict = c.dict;
    check.tag = c.tag;
  }
  if (ties_hold())
    return true;
  settled_ = false;
  return false;
}

bool Watch::ties_hold() const {
  for (const auto &[c, s] : ties_) {
    const Slot &slot = graph_.containers[c].slots[s];
    PyObject *other = slot.expect == Expect::same ? captures_[slot.capture]
                                                  : present(graph_.objects[slot.object]);
    if (slot.value != other)
      return false;
  }
  for (const Graph::Unlike &u : graph_.unlike)
    if (graph_.containers[u.container].slots[u.slot].value ==
        graph_.containers[u.other_container].slots[u.other_slot].value)
      return false;
  return alike_.empty() || are_apart();
}

/// Whether no object that came in another's place is found by a path at which the trace met another
/// one: what is stored through one path would show through the other.
bool Watch::are_apart() const {
  std::unordered_map<PyObject *, std::int32_t> found;
  for (const std::int32_t number : alike_)
    if (!found.emplace(present(graph_.objects[number]), number).second)
      return false;
  const auto is_another = [&](PyObject *object, std::int32_t number) {
    const auto one = found.find(object);
    return one != found.end() && one->second != number;
  };
  for (std::size_t i = 0; i < graph_.objects.size(); ++i)
    if (is_another(present(graph_.objects[i]), static_cast<std::int32_t>(i)))
      return false;
  for (const Container &c : graph_.containers)
    for (const Slot &s : c.slots)
      if (s.value && is_another(s.value, s.object))
        return false;
  return true;
}

/// Whether the object's identity needs no check of its own: a tag stands for it, it is a root, or
/// it is kept.
bool Watch::vouched(const Container &container) const {
  const Object &o = graph_.objects[container.object];
  if (o.container < 0)
    return true;
  const Container &holder = graph_.containers[o.container];
  return has_dict(holder.place) || (o.object && holder.slots[o.slot].keep == o.object);
}

/// The defaults of the function itself, which the Function's parameters hold as well.
bool Watch::are_own_defaults(const Container &container, const Slot &s) const {
  const Object &o = graph_.objects[container.object];
  return container.place == Place::function && s.index == kDefaults && s.value &&
         PyTuple_CheckExact(s.value) && o.container < 0 && o.argument < 0 && !o.weak;
}

void Watch::compile() {
  checks_.clear();
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    const Object &o = graph_.objects[i];
    if (o.argument >= 0)
      checks_.push_back({Check::argument, 0, o.argument, o.object, o.type, nullptr, 0});
    else if (o.container < 0 && o.weak)
      checks_.push_back({Check::weak_root, 0, static_cast<std::int32_t>(i), referent(o.object),
                         o.type, nullptr, 0});
  }
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &c = graph_.containers[i];
    PyObject *owner = present(graph_.objects[c.object]);
    Check check{Check::dict_only, 0,    static_cast<std::int32_t>(i), owner, Py_TYPE(owner),
                c.dict,           c.tag};
    switch (c.place) {
    case Place::instance:
      check.kind = Check::instance;
      check.anchor = static_cast<std::int16_t>(_PyObject_GetDictPtr(owner) -
                                               reinterpret_cast<PyObject **>(owner));
      break;
    case Place::names:
    case Place::globals:
    case Place::entries:
      break;
    case Place::members:
    case Place::function:
    case Place::referent:
    case Place::set:
    case Place::deque:
    case Place::keys:
    case Place::inner:
    case Place::asked:
      check.kind = Check::slots;
      if (c.slots.empty() && !c.counted)
        continue;
      break;
    case Place::items:
      check.kind = Check::items;
      if (PyTuple_Check(owner) && vouched(c))
        continue;
      break;
    case Place::method: // immutable
    case Place::partial:
      continue;
    }
    checks_.push_back(check);
    if (keeps_order(static_cast<std::size_t>(i), owner)) {
      check.kind = Check::order;
      checks_.push_back(check);
    }
  }
}

/// An OrderedDict that was read whole. It may change its order, and then its version stays the
/// same.
bool Watch::keeps_order(std::size_t container, PyObject *owner) const {
  return graph_.containers[container].place == Place::entries && PyODict_Check(owner) &&
         items_[container].size() > 1;
}

bool Watch::is_in_order(std::size_t container, PyObject *owner) const {
  const Owned keys(PyODict_Type.tp_iter(owner));
  bool same = static_cast<bool>(keys);
  for (const Item &item : items_[container]) {
    const Owned key(same ? PyODictIter_Type.tp_iternext(keys.get()) : nullptr);
    same = key && (item.key == key.get() || holds_key(item, key.get()));
  }
  PyErr_Clear();
  return same;
}

// ---- the full pass ------------------------------------------------------------------------------

bool Watch::settle(PyObject *const *arguments) {
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

bool Watch::settle(std::size_t index) {
  Container &c = graph_.containers[index];
  const Object &o = graph_.objects[c.object];
  PyObject *owner = present(o);
  if (!owner || Py_TYPE(owner) != o.type)
    return false;
  if (has_dict(c.place)) {
    PyObject *dict = dict_of(c.place, owner);
    if (!dict) {
      c.dict = nullptr;
      for (Slot &s : c.slots)
        if (!matches(s, nullptr))
          return false;
      return true;
    }
    const std::uint64_t tag = version(dict);
    if (dict == c.dict && tag == c.tag && !keeps_order(index, owner))
      return true;
    const bool same = c.place == Place::entries && !c.open ? settle_entries(index, dict)
                      : c.open
                          ? [&] {
                              for (Slot &s : c.slots)
                                if (!matches(s, read(c, s, owner, dict)))
                                  return false;
                              return true;
                            }()
                          : settle_names(index, dict);
    // A user's __eq__ may have changed it meanwhile.
    if (!same || version(dict) != tag)
      return false;
    c.dict = dict;
    c.tag = tag;
    return true;
  }
  if (c.counted && length_of(c.place, owner) != c.length)
    return false;
  for (Slot &s : c.slots) {
    PyObject *now = read(c, s, owner, nullptr);
    if (!matches(s, now) || (now && read(c, s, owner, nullptr) != now))
      return false;
    keep(c, s);
  }
  return true;
}

bool Watch::settle_entries(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  if (PyDict_GET_SIZE(dict) != c.length)
    return false;
  const std::vector<Item> &items = items_[index];
  const std::uint64_t tag = version(dict);
  std::size_t i = 0;
  for (Entries entries(dict); i < items.size() && entries.next(); ++i) {
    const Item &item = items[i];
    if (entries.key() != item.key && !holds_key(item, entries.key()))
      return false;
    if (!matches(c.slots[item.slot], entries.value()) || version(dict) != tag)
      return false;
  }
  return i == items.size();
}

/// Whether another object is the same key.
bool Watch::holds_key(const Item &item, PyObject *key) {
  if (!item.key)
    return holds(item.node, key);
  if (Py_TYPE(key) != Py_TYPE(item.key))
    return false;
  const int same = PyObject_RichCompareBool(key, item.key, Py_EQ);
  if (same < 0)
    PyErr_Clear();
  return same == 1;
}

bool Watch::settle_names(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  const std::vector<Item> &items = items_[index];
  if (static_cast<Py_ssize_t>(items.size()) != PyDict_GET_SIZE(dict) || items.empty())
    return learn_names(index, dict);
  const std::uint64_t tag = version(dict);
  PyObject *key, *value;
  std::size_t i = 0;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value); ++i) {
    if (items[i].key != key)
      return learn_names(index, dict);
    const std::int32_t slot = items[i].slot;
    if (slot >= 0 && (!matches(c.slots[slot], value) || version(dict) != tag))
      return false;
  }
  return true;
}

bool Watch::learn_names(std::size_t index, PyObject *dict) {
  Container &c = graph_.containers[index];
  std::vector<Item> fresh;
  std::vector<bool> seen(c.slots.size());
  const std::uint64_t tag = version(dict);
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
    same = matches(c.slots[slot], value) && version(dict) == tag;
  }
  for (std::size_t s = 0; same && s < c.slots.size(); ++s)
    same = seen[s] || matches(c.slots[s], nullptr);
  if (same)
    std::swap(items_[index], fresh);
  for (Item &item : fresh)
    Py_DECREF(item.key);
  return same;
}

bool Watch::matches(Slot &s, PyObject *now) {
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
      // A tuple has no check of its own where a tag vouches for it, so at the same address ...
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

/// Of an int beyond int64, false.
bool Watch::set_number(std::int32_t capture, PyObject *now) {
  at::Tensor number = tensor_of_python_number(now);
  PyObject *tensor = number.defined() ? THPVariable_Wrap(std::move(number)) : nullptr;
  if (!tensor) {
    PyErr_Clear();
    return false;
  }
  if (held_[capture])
    replaced_.emplace_back(held_[capture]);
  held_[capture] = captures_[capture] = tensor;
  return true;
}

void Watch::free_replaced() { const std::vector<Owned> freed = std::exchange(replaced_, {}); }

/// After matches(), where no tag vouches for the value.
void Watch::keep(const Container &c, Slot &s) {
  PyObject *old = s.keep;
  if (are_own_defaults(c, s)) {
    s.keep = Py_NewRef(s.value);
  } else if (!s.value || s.expect == Expect::any || s.expect == Expect::container ||
             s.expect == Expect::tensor) {
    s.keep = nullptr;
  } else if (Py_TYPE(s.value)->tp_weaklistoffset == 0) {
    s.keep = Py_NewRef(s.value);
  } else {
    Py_INCREF(s.value); // the allocation may collect
    s.keep = PyWeakref_NewRef(s.value, nullptr);
    Py_DECREF(s.value);
    if (!s.keep) {
      PyErr_Clear();
      s.value = nullptr; // compare again next time
    }
  }
  Py_XDECREF(old);
}

} // namespace tracehost::python
