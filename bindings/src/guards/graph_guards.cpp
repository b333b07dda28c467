#include "guards/graph_guards.h"

#include "base/forget_error.h"
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

/// Whether the slot, of a container that nothing vouches for, holds the value it held.
inline bool holds_still(const Slot &s, PyObject *now) {
  if (s.expect == Expect::any)
    return true;
  if (now != s.value)
    return false;
  if (s.keep == now)
    return true; // kept by us, or nothing as before
  if (s.keep)
    return reinterpret_cast<PyWeakReference *>(s.keep)->wr_object == now;
  // The elements of a list, tuple or dict are checked elsewhere. For a tensor that is no input,
  // only the kind is compared.
  return s.expect == Expect::container ? Py_TYPE(now) == s.type
                                       : s.expect == Expect::tensor && is_tensor(now);
}

} // namespace

GraphGuards::GraphGuards(Graph graph, bool watches, std::vector<PyObject *> captured,
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

GraphGuards::~GraphGuards() {
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
  for (Container &c : graph_.containers) {
    c.watch.stop();
    for (Slot &s : c.slots) {
      Py_XDECREF(s.key);
      Py_XDECREF(s.keep);
      Py_XDECREF(s.answer);
      Py_XDECREF(reinterpret_cast<PyObject *>(s.type));
    }
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
  shown_.clear();
}

// ---- the fast way -------------------------------------------------------------------------------

/// Index of the first check from `from` on that fails, or their number.
std::size_t GraphGuards::first_changed(PyObject *const *arguments, std::size_t from) {
  const std::size_t count = checks_.size();
  for (std::size_t i = from; i < count; ++i) {
    Check &check = checks_[i];
    switch (check.kind) {
    case Check::dict_only:
      if (!check.seen.same())
        return i;
      break;
    case Check::globals:
      if (!check.seen.same()) {
        const DictWatch &watch = graph_.containers[check.index].watch;
        if (!watch.follows(check.dict) || !holds_names(check.index, check.dict))
          return i;
        check.seen = watch.now();
      }
      break;
    case Check::names:
      if (!holds_names(check.index, check.dict))
        return i;
      break;
    case Check::instance:
      if (Py_TYPE(check.object) != check.type ||
          reinterpret_cast<PyObject **>(check.object)[check.anchor] != check.dict ||
          !check.seen.same())
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

/// Whether a dict holds the values that the last pass has found: those that were read, or all of it
/// in its order. Slot::keep vouches for them.
bool GraphGuards::holds_names(std::size_t container, PyObject *dict) const {
  const Container &c = graph_.containers[container];
  if (c.open)
    return std::all_of(c.slots.begin(), c.slots.end(), [&](const Slot &s) {
      return holds_still(s, value_of(dict, s.key, s.place));
    });
  const std::vector<Item> &items = items_[container];
  if (PyDict_GET_SIZE(dict) != static_cast<Py_ssize_t>(items.size()))
    return false;
  std::size_t i = 0;
  for (Entries entries(dict); i < items.size() && entries.next(); ++i) {
    const Item &item = items[i];
    if (entries.key() != item.key && !holds_key(item, entries.key()))
      return false;
    if (item.slot >= 0 && !holds_still(c.slots[item.slot], entries.value()))
      return false;
  }
  return i == items.size();
}

/// From a failed check on: reads again the containers that changed, as long as every object stays
/// where the checks have it; else all.
bool GraphGuards::follow(PyObject *const *arguments, std::size_t at) {
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
      return false; // this check keeps failing until it is the same again
    check.dict = c.dict;
    check.seen = c.seen;
  }
  if (ties_hold())
    return true;
  settled_ = false;
  return false;
}

bool GraphGuards::ties_hold() const {
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
bool GraphGuards::are_apart() const {
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

/// Whether the object's identity needs no check of its own: a dict that is followed has it, it is a
/// root, or it is kept.
bool GraphGuards::vouched(const Container &container) const {
  const Object &o = graph_.objects[container.object];
  if (o.container < 0)
    return true;
  const Container &holder = graph_.containers[o.container];
  return (has_dict(holder.place) && !is_kept(holder)) ||
         (o.object && holder.slots[o.slot].keep == o.object);
}

/// The defaults of the function itself, which the Function's parameters hold as well.
bool GraphGuards::are_own_defaults(const Container &container, const Slot &s) const {
  const Object &o = graph_.objects[container.object];
  return container.place == Place::function && s.index == kDefaults && s.value &&
         PyTuple_CheckExact(s.value) && o.container < 0 && o.argument < 0 && !o.weak;
}

void GraphGuards::compile() {
  checks_.clear();
  for (std::size_t i = 0; i < graph_.objects.size(); ++i) {
    const Object &o = graph_.objects[i];
    if (o.argument >= 0)
      checks_.push_back({Check::argument, 0, o.argument, o.object, o.type, nullptr, {}});
    else if (o.container < 0 && o.weak)
      checks_.push_back({Check::weak_root,
                         0,
                         static_cast<std::int32_t>(i),
                         referent(o.object),
                         o.type,
                         nullptr,
                         {}});
  }
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &c = graph_.containers[i];
    PyObject *owner = present(graph_.objects[c.object]);
    Check check{Check::dict_only, 0,     static_cast<std::int32_t>(i), owner, Py_TYPE(owner),
                c.dict,           c.seen};
    switch (c.place) {
    case Place::instance: {
      PyObject **at = _PyObject_GetDictPtr(owner);
      if (!at) { // its class gives it none
        forget_error();
        continue;
      }
      check.kind = Check::instance;
      check.anchor = static_cast<std::int16_t>(at - reinterpret_cast<PyObject **>(owner));
      break;
    }
    case Place::globals:
      check.kind = c.by_name ? Check::names : Check::globals;
      break;
    case Place::names:
    case Place::entries:
      if (c.by_name)
        check.kind = Check::names;
      break;
    case Place::keys: // nothing reports an OrderedDict's order
      if (c.slots.empty())
        continue;
      if (!c.dict)
        check.kind = Check::slots;
      break;
    case Place::members:
    case Place::function:
    case Place::referent:
    case Place::set:
    case Place::deque:
    case Place::inner:
    case Place::asked:
    case Place::kind:
      check.kind = Check::slots;
      if (c.slots.empty() && !c.counted)
        continue;
      break;
    case Place::items:
      check.kind = Check::items;
      if (PyTuple_Check(owner) && vouched(c))
        continue;
      break;
    case Place::fields: // immutable
      continue;
    }
    checks_.push_back(check);
    if (check.kind == Check::instance && c.by_name) {
      check.kind = Check::names;
      checks_.push_back(check);
    }
    if (keeps_order(static_cast<std::size_t>(i), owner)) {
      check.kind = Check::order;
      checks_.push_back(check);
    }
  }
}

/// An OrderedDict that was read whole. It may change its order, which nothing reports.
bool GraphGuards::keeps_order(std::size_t container, PyObject *owner) const {
  return graph_.containers[container].place == Place::entries && PyODict_Check(owner) &&
         items_[container].size() > 1;
}

bool GraphGuards::is_in_order(std::size_t container, PyObject *owner) const {
  const Owned keys(PyODict_Type.tp_iter(owner));
  bool same = static_cast<bool>(keys);
  for (const Item &item : items_[container]) {
    const Owned key(same ? PyODictIter_Type.tp_iternext(keys.get()) : nullptr);
    same = key && (item.key == key.get() || holds_key(item, key.get()));
  }
  forget_error();
  return same;
}

} // namespace tracehost::python
