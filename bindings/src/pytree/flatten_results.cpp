#include "base/known.h"
#include "pytree/arrays.h"
#include "pytree/flattener.h"
#include "pytree/leaf.h"
#include "pytree/user_type.h"

#include <algorithm>

/// Objects of a result: from outside, made by the body, or constants.

namespace tracehost::python {
namespace {

/// The object's place in the list, where it may be put now.
std::size_t place_in(std::vector<PyObject *> &list, PyObject *object) {
  const auto found = std::find(list.begin(), list.end(), object);
  if (found != list.end())
    return static_cast<std::size_t>(found - list.begin());
  list.push_back(object);
  return list.size() - 1;
}

/// Whether each call may return this very object.
bool is_constant(PyObject *object) {
  if (PyType_Check(object) || PyFunction_Check(object) || is_enum_member(object))
    return true;
  if (has_user_type(Py_TYPE(object)) || container_type(object))
    return false;
  std::vector<AtomRef> atoms;
  const Node node = leaf(object, atoms);
  return node.kind != Kind::atom || !mark_of(object, node);
}

/// How often an object refers to another by itself, or by its attributes.
Py_ssize_t references(PyObject *from, PyObject *to) {
  struct Count {
    PyObject *to;
    Py_ssize_t found = 0;
  } count{to};
  const visitproc visit = [](PyObject *object, void *arg) {
    auto &state = *static_cast<Count *>(arg);
    state.found += object == state.to;
    return 0;
  };
  const auto ask = [&](PyObject *object) {
    if (PyObject_IS_GC(object))
      Py_TYPE(object)->tp_traverse(object, visit, &count);
  };
  ask(from);
  if (PyObject **dict = _PyObject_GetDictPtr(from); dict && *dict)
    ask(*dict);
  return count.found;
}

} // namespace

/// An object of a result that each call finds, and none makes.
bool Flattener::from_outside(PyObject *object) {
  if (is_constant(object))
    return false;
  const auto given = std::find(result_->given.begin(), result_->given.end(), object);
  std::size_t number = static_cast<std::size_t>(given - result_->given.begin());
  if (given == result_->given.end()) {
    if (!result_->reached || result_->reached->as(object) != ReachedObjects::As::whole)
      return false;
    number += place_in(result_->reached->objects, object);
  }
  again(object, kGiven, {.alias = {0, static_cast<std::uint32_t>(number)}});
  return true;
}

/// Adds an object of a result if it can be made again. Returns false for any other object.
bool Flattener::of_result(PyObject *object) {
  if (!result_ || in_context_ || PyType_Check(object) || PyFunction_Check(object) ||
      is_enum_member(object))
    return false;
  if (const auto met = result_->made.find(object); met != result_->made.end()) {
    if (nodes_[met->second.node].end == 0)
      nesting_.enter(object); // throws: it contains itself
    ++met->second.references;
    nodes_[met->second.node].reserved[2] = kShared;
    again(object, kShared, {.alias = {met->second.node, 0}});
    return true;
  }
  const bool array = is_new_array(object);
  auto type = array ? nullptr : instance_type(object);
  if (!array && !type)
    return false;
  result_->made.emplace(object, ResultObjects::Made{static_cast<std::uint32_t>(nodes_.size()), 1});
  array ? leaf_node(object) : container(object, std::move(type));
  return true;
}

/// Node::reserved[1] of a container from outside. A tuple gets no number, because an equal tuple
/// serves in its place.
void Flattener::number_container(PyObject *object, std::size_t node) {
  if (!result_ || PyTuple_Check(object))
    return;
  const auto &of = result_->containers;
  auto number = static_cast<std::size_t>(std::find(of.begin(), of.end(), object) - of.begin());
  if (number == of.size()) {
    if (!result_->reached || result_->reached->as(object) == ReachedObjects::As::none)
      return;
    number += place_in(result_->reached->containers, object);
  }
  if (number < 255)
    nodes_[node].reserved[1] = static_cast<std::uint8_t>(number + 1);
}

/// A registered class gives children as it likes: it may hold one more often than it gives it
/// (ModelOutput, as an item and as an attribute).
void Flattener::count_references(PyObject *object, std::span<PyObject *const> given) {
  for (auto &[child, made] : result_->made) {
    const auto times = std::count(given.begin(), given.end(), child);
    if (times > 0)
      made.references += references(object, child) - times;
  }
}

} // namespace tracehost::python
