#include "guards/graph_guards_reader.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "guards/number_slots.h"

#include <torch/csrc/autograd/python_variable.h>

/// What the Guards compare, for Signatures and differences. Nothing here is hot.

namespace tracehost::python {

namespace {

Node tensor_leaf(std::vector<AtomRef> &atoms) {
  return leaf(reinterpret_cast<PyObject *>(tensor_class()), atoms);
}

Node text_leaf(const std::string &text, std::vector<AtomRef> &atoms) {
  Owned made(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  PyErr_Clear();
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
  PyErr_Clear();
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
std::string whole_path(const Graph &graph, const Container &c,
                       const std::vector<std::string> &prefixes) {
  const Object &o = graph.objects[c.object];
  const std::string own =
      c.module && o.container >= 0
          ? std::string(".") + utf8(graph.containers[o.container].slots[o.slot].key)
          : std::string();
  return prefixes[c.object] + own + graph.suffix(c.object);
}

/// A list or set whose length counts, a dict that was read whole.
bool is_told_whole(const Container &c) {
  return c.place == Place::entries ? !c.open : is_collection(c.place) && c.counted;
}

const char *const kAppeared = "attributes that were not there";

} // namespace

std::vector<GuardedSlot> GraphGuards::recorded(std::vector<AtomRef> &atoms) const {
  std::vector<GuardedSlot> result;
  if (!watches_)
    return result;
  const std::vector<std::string> prefixes = graph_.prefixes();
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &c = graph_.containers[i];
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      const Slot &slot = c.slots[s];
      if (is_no_leaf(slot))
        continue;
      Node node = slot.node;
      if (slot.expect == Expect::container)
        node = leaf(reinterpret_cast<PyObject *>(slot.type), atoms);
      else if (slot.expect == Expect::tensor)
        node = tensor_leaf(atoms);
      else if (slot.expect == Expect::same)
        node = number_leaf(1, Kind::boolean);
      else if (slot.atom)
        atoms.push_back(slot.atom);
      std::string path = graph_.path(static_cast<int>(i), static_cast<int>(s), prefixes[c.object]);
      result.push_back({slot.expect == Expect::same ? "shared " + path : path, node});
    }
    if (!is_told_whole(c))
      continue;
    const std::string of = whole_path(graph_, c, prefixes);
    if (c.place != Place::entries) {
      result.push_back({"len(" + of + ")", number_leaf(c.length)});
      continue;
    }
    std::string keys;
    for (const Item &item : items_[i])
      if (item.key)
        append_key(keys, item.key);
    append_rest(keys, c.length, items_[i].size());
    result.push_back({"list(" + of + ")", text_leaf(keys, atoms)});
  }
  result.push_back({kAppeared, text_leaf("", atoms)});
  return result;
}

std::vector<GuardedSlot> GraphGuards::current(PyObject *const *arguments,
                                              std::vector<AtomRef> &atoms) {
  std::vector<GuardedSlot> result;
  if (!watches_)
    return result;
  Reader reader(*this, arguments);
  const std::vector<std::string> prefixes = graph_.prefixes();
  std::string appeared;
  const std::vector<PyObject *> captured = current_captures(arguments);
  for (std::size_t i = 0; i < graph_.containers.size(); ++i) {
    const Container &c = graph_.containers[i];
    for (std::size_t s = 0; s < c.slots.size(); ++s) {
      const Slot &slot = c.slots[s];
      PyObject *now = reader.value(c, slot);
      if (is_no_leaf(slot))
        continue;
      Node node;
      std::string path = graph_.path(static_cast<int>(i), static_cast<int>(s), prefixes[c.object]);
      if (slot.expect == Expect::same) {
        node = number_leaf(now && now == captured[slot.capture], Kind::boolean);
        path = "shared " + path;
      } else if (slot.expect == Expect::container && now && Py_TYPE(now) == slot.type) {
        node = leaf(reinterpret_cast<PyObject *>(slot.type), atoms);
      } else if (now && is_tensor(now)) {
        node = tensor_leaf(atoms);
      } else if (now && slot.atom && holds(slot.node, now)) {
        node = slot.node; // its own atom: equal by pointer
        atoms.push_back(slot.atom);
      } else {
        node = leaf_of(now, atoms);
      }
      result.push_back({std::move(path), node});
    }
    PyObject *owner = reader.owner(c);
    PyObject *dict = owner ? dict_of(c.place, owner) : nullptr;
    if ((c.place == Place::instance || c.place == Place::names) && dict && !c.open) {
      PyObject *key, *value;
      for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);) {
        bool known_slot = false;
        for (const Slot &s : c.slots)
          known_slot |=
              s.key == key || (PyUnicode_CheckExact(key) && PyUnicode_Compare(s.key, key) == 0);
        if (!known_slot)
          appeared += (appeared.empty() ? "" : ", ") + graph_.path(static_cast<int>(i), key);
      }
    }
    if (!is_told_whole(c))
      continue;
    const std::string of = whole_path(graph_, c, prefixes);
    PyObject *other = reader.objects[c.object]; // of another type, or nothing
    if (c.place != Place::entries) {
      result.push_back({"len(" + of + ")",
                        owner ? number_leaf(length_of(c.place, owner)) : type_leaf(other, atoms)});
      continue;
    }
    std::string keys;
    if (dict) {
      std::size_t count = 0;
      for (Entries entries(dict); entries.next(); ++count)
        if (!may_hold(entries.key()))
          append_key(keys, entries.key());
      append_rest(keys, PyDict_GET_SIZE(dict), count);
    }
    result.push_back({"list(" + of + ")", dict ? text_leaf(keys, atoms) : type_leaf(other, atoms)});
  }
  result.push_back({kAppeared, text_leaf(appeared, atoms)});
  return result;
}

std::vector<PyObject *> GraphGuards::current_captures(PyObject *const *arguments) {
  shown_.clear();
  std::vector<PyObject *> result = held_;
  Reader reader(*this, arguments);
  for (const Container &c : graph_.containers)
    for (const Slot &s : c.slots) {
      PyObject *now = reader.value(c, s);
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
