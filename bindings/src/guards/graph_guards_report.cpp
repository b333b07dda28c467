#include "base/forget_error.h"
#include "guards/graph_guards_reader.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/number_slots.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

/// What the Guards compare, for Signatures and differences. Nothing here is hot.

namespace tracehost::python {

namespace {

Node tensor_leaf(std::vector<AtomRef> &atoms) {
  return leaf(reinterpret_cast<PyObject *>(tensor_class()), atoms);
}

Node text_leaf(const std::string &text, std::vector<AtomRef> &atoms) {
  Owned made(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  forget_error();
  return leaf(made ? made.get() : Py_None, atoms);
}

Node number_leaf(std::int64_t number, Kind kind = Kind::integer) {
  Node node;
  node.kind = kind;
  node.payload.integer = number;
  return node;
}

void append_key(std::string &text, PyObject *key) {
  Owned repr(PyUnicode_CheckExact(key) || PyLong_CheckExact(key) ? PyObject_Repr(key) : nullptr);
  forget_error();
  text += text.empty() ? "" : ", ";
  text += repr ? utf8(repr.get()) : Py_TYPE(key)->tp_name;
}

/// Keys that are not listed, by their number.
void append_rest(std::string &keys, Py_ssize_t length, std::size_t listed) {
  if (length > static_cast<Py_ssize_t>(listed))
    keys += " and " + std::to_string(length - static_cast<Py_ssize_t>(listed)) + " more";
}

Node type_leaf(PyObject *object, std::vector<AtomRef> &atoms) {
  return leaf_of(object ? reinterpret_cast<PyObject *>(Py_TYPE(object)) : nullptr, atoms);
}

/// A list, tuple or dict whose container says what it is: its length or keys, or another type.
bool is_told_below(const Slot &slot) { return slot.expect == Expect::container && slot.primary; }

/// Whether nothing is expected, or the report has the slot among the captures or below.
bool is_no_leaf(const Slot &slot) {
  return slot.expect == Expect::any || slot.expect == Expect::capture ||
         slot.expect == Expect::number || is_told_below(slot);
}

/// The container itself, `self.fc._modules` where its elements are `self.fc.name`.
std::string whole_path(const Graph &graph, const Container &c, const std::string &prefix) {
  const Object &o = graph.objects[c.object];
  const std::string own =
      c.module && o.container >= 0
          ? std::string(".") + utf8(graph.containers[o.container].slots[o.slot].key)
          : std::string();
  return prefix + own + graph.suffix(c.object);
}

/// A list or set whose length counts, a dict that was read whole.
bool is_told_whole(const Container &c) {
  return c.place == Place::entries ? !c.open : is_collection(c.place) && c.counted;
}

Node recorded_leaf(const Slot &slot, std::vector<AtomRef> &atoms) {
  if (slot.expect == Expect::container)
    return leaf(reinterpret_cast<PyObject *>(slot.type), atoms);
  if (slot.expect == Expect::tensor)
    return tensor_leaf(atoms);
  if (slot.expect == Expect::same)
    return number_leaf(1, Kind::boolean);
  if (slot.atom)
    atoms.push_back(slot.atom);
  return slot.node;
}

Node current_leaf(const Slot &slot, PyObject *now, const std::vector<PyObject *> &captured,
                  std::vector<AtomRef> &atoms) {
  if (slot.expect == Expect::same)
    return number_leaf(now && now == captured[slot.capture], Kind::boolean);
  if (slot.expect == Expect::container && now && Py_TYPE(now) == slot.type)
    return leaf(reinterpret_cast<PyObject *>(slot.type), atoms);
  if (now && is_tensor(now))
    return tensor_leaf(atoms);
  if (!now || !slot.atom || !holds(slot.node, now))
    return leaf_of(now, atoms);
  atoms.push_back(slot.atom);
  return slot.node; // its own atom: equal by pointer
}

/// Names in the dict that no slot has.
std::string names_beside(const Graph &graph, int container, PyObject *dict) {
  const Container &c = graph.containers[container];
  std::string names;
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (std::none_of(c.slots.begin(), c.slots.end(), [key](const Slot &s) {
          return s.key == key || (PyUnicode_CheckExact(key) && PyUnicode_Compare(s.key, key) == 0);
        }))
      names += (names.empty() ? "" : ", ") + graph.path(container, key);
  return names;
}

std::string keys_of(PyObject *dict) {
  std::string keys;
  std::size_t count = 0;
  for (Entries entries(dict); entries.next(); ++count)
    if (!may_hold(entries.key()))
      append_key(keys, entries.key());
  append_rest(keys, PyDict_GET_SIZE(dict), count);
  return keys;
}

/// Container and slot that each capture is reached by first.
using CapturePlaces = std::unordered_map<std::int32_t, std::pair<int, int>>;
CapturePlaces places_of_captures(const Graph &graph) {
  CapturePlaces places;
  for (std::size_t i = 0; i < graph.containers.size(); ++i)
    for (std::size_t s = 0; s < graph.containers[i].slots.size(); ++s)
      if (const Slot &slot = graph.containers[i].slots[s]; slot.expect == Expect::capture)
        places.emplace(slot.capture, std::pair(static_cast<int>(i), static_cast<int>(s)));
  return places;
}

/// `self.b is self.a`: of a slot that has the tensor of an earlier one.
std::string path_of_both(const Graph &graph, const CapturePlaces &places, const std::string &path,
                         const Slot &slot) {
  const auto first = places.find(slot.capture);
  return path + " is " +
         (first == places.end() ? "an argument"
                                : graph.path(first->second.first, first->second.second));
}

} // namespace

/// Each slot with what it holds `now`, or held before the trace.
std::vector<GuardedSlot> GraphGuards::report(const Reader *now,
                                             const std::vector<PyObject *> &captured,
                                             std::vector<AtomRef> &atoms) const {
  std::vector<GuardedSlot> result;
  std::string appeared;
  const CapturePlaces places = places_of_captures(graph_);
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &c = graph_.containers[i];
    const std::string prefix = graph_.prefix(c.object);
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      const Slot &slot = c.slots[s];
      if (is_no_leaf(slot))
        continue;
      const std::string path = graph_.path(static_cast<int>(i), static_cast<int>(s), prefix);
      result.push_back(
          {slot.expect == Expect::same ? path_of_both(graph_, places, path, slot) : path,
           now ? current_leaf(slot, now->values[i][s].get(), captured, atoms)
               : recorded_leaf(slot, atoms)});
    }
    PyObject *owner = now ? now->owner(c) : nullptr;
    PyObject *dict = owner ? dict_of(c.place, owner) : nullptr;
    if ((c.place == Place::instance || c.place == Place::names) && dict && !c.open) {
      const std::string names = names_beside(graph_, static_cast<int>(i), dict);
      appeared += (appeared.empty() || names.empty() ? "" : ", ") + names;
    }
    if (!is_told_whole(c))
      continue;
    const bool entries = c.place == Place::entries;
    Node node;
    if (now && !(entries ? dict : owner)) { // of another type, or nothing
      node = type_leaf(now->objects[c.object], atoms);
    } else if (!entries) {
      node = number_leaf(now ? length_of(c.place, owner) : c.length);
    } else if (now) {
      node = text_leaf(keys_of(dict), atoms);
    } else {
      std::string keys;
      for (const Item &item : items_[i])
        if (item.key)
          append_key(keys, item.key);
      append_rest(keys, c.length, items_[i].size());
      node = text_leaf(keys, atoms);
    }
    result.push_back({(entries ? "list(" : "len(") + whole_path(graph_, c, prefix) + ")", node});
  }
  result.push_back({"attributes that were not there", text_leaf(appeared, atoms)});
  return result;
}

std::vector<GuardedSlot> GraphGuards::recorded(std::vector<AtomRef> &atoms) const {
  return watches_ ? report(nullptr, {}, atoms) : std::vector<GuardedSlot>();
}

std::vector<GuardedSlot> GraphGuards::current(PyObject *const *arguments,
                                              std::vector<AtomRef> &atoms) {
  if (!watches_)
    return {};
  const Reader now(graph_, arguments);
  return report(&now, current_captures(arguments), atoms);
}

std::vector<PyObject *> GraphGuards::current_captures(PyObject *const *arguments) {
  shown_.clear();
  std::vector<PyObject *> result = held_;
  const Reader reader(graph_, arguments);
  for (std::size_t c = 0; c < graph_.containers.size(); ++c)
    for (std::size_t i = 0; i < graph_.containers[c].slots.size(); ++i) {
      const Slot &s = graph_.containers[c].slots[i];
      PyObject *now = reader.values[c][i].get();
      if (s.expect == Expect::capture)
        result[s.capture] = now && is_tensor(now) ? now : nullptr;
      if (s.expect != Expect::number)
        continue;
      at::Tensor number = now ? tensor_of_python_number(now) : at::Tensor();
      result[s.capture] = number.defined() ? THPVariable_Wrap(std::move(number)) : nullptr;
      shown_.emplace_back(result[s.capture]);
    }
  return result;
}

std::vector<std::string> GraphGuards::unguarded() const {
  std::vector<std::string> result = graph_.unknown_calls;
  for (std::size_t c = 0; c < graph_.containers.size(); ++c)
    for (std::size_t i = 0; i < graph_.containers[c].slots.size(); ++i) {
      const Slot &s = graph_.containers[c].slots[i];
      if (!s.opaque)
        continue;
      result.push_back(graph_.path(static_cast<int>(c), static_cast<int>(i)) + ": " +
                       s.type->tp_name);
    }
  return result;
}

} // namespace tracehost::python
