#include "base/forget_error.h"
#include "base/known.h"
#include "pytree/arrays.h"
#include "pytree/flattener.h"
#include "pytree/leaf.h"
#include "pytree/user_type.h"

#include <algorithm>
#include <string>

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
  if (is_importable(object) || is_enum_member(object))
    return true;
  if (PyType_Check(object) || PyFunction_Check(object))
    return false;
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

/// Whether a class or function is found in its module by its name: it is the same at each call.
bool is_importable(PyObject *leaf) {
  if (!PyType_Check(leaf) && !PyFunction_Check(leaf))
    return false;
  const Owned module(PyObject_GetAttrString(leaf, "__module__"));
  const Owned name(module ? PyObject_GetAttrString(leaf, "__qualname__") : nullptr);
  PyObject *holder = name && PyUnicode_Check(name.get()) && PyUnicode_Check(module.get())
                         ? PyDict_GetItemWithError(PyImport_GetModuleDict(), module.get())
                         : nullptr;
  Owned found(Py_XNewRef(holder));
  const std::string path = holder ? utf8(name.get()) : "";
  for (std::size_t from = 0; found && from < path.size();) {
    const std::size_t dot = std::min(path.find('.', from), path.size());
    found = Owned(PyObject_GetAttrString(found.get(), path.substr(from, dot - from).c_str()));
    from = dot + 1;
  }
  forget_error();
  return found.get() == leaf;
}

void MadeObjects::add_references(PyObject *object, Py_ssize_t more) {
  if (const auto one = found.find(object); one != found.end())
    one->second.references += more;
}

void MadeObjects::undo() {
  for (PyObject *object : again_)
    if (const auto one = found.find(object); one != found.end())
      --one->second.references;
  std::erase_if(found, [this](const auto &one) { return one.second.tree == tree; });
}

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

/// Whether some tree has made the object already: it is the same one here.
bool Flattener::met_again(PyObject *object) {
  const auto met = result_->made.found.find(object);
  if (met == result_->made.found.end())
    return false;
  const auto [tree, node, references, counted] = met->second;
  if (tree == result_->made.tree) {
    if (nodes_[node].end == 0)
      nesting_.enter(object); // throws: it contains itself
    nodes_[node].reserved[2] = kShared;
  }
  result_->made.meet_again(object, met->second);
  again(object, kShared, {.alias = {node, tree}});
  return true;
}

/// Notes an object that the next node is the first place of.
void Flattener::note_made(PyObject *object, bool counted) {
  MadeObjects &made = result_->made;
  const auto node = static_cast<std::uint32_t>(nodes_.size());
  if (made.found.emplace(object, MadeObjects::Made{made.tree, node, 1, counted}).second)
    made.held.emplace_back(Py_NewRef(object));
}

/// Adds a tensor of a result with the attributes that the body has set on it. Returns false for a
/// tensor without some.
bool Flattener::with_attributes(PyObject *object) {
  if (!result_ || in_context_ || !result_->has_attributes || !result_->has_attributes(object))
    return false;
  if (met_again(object))
    return true;
  note_made(object, false);
  nesting_.enter(object);
  const auto type = std::make_shared<ContainerType>(Py_TYPE(object), Form::attributed);
  const std::size_t at = open(type);
  tensor(object);
  further(object, *type);
  close(at);
  nesting_.leave();
  return true;
}

/// Adds an object of a result if it can be made again. Returns false for any other object.
bool Flattener::of_result(PyObject *object) {
  if (!result_ || in_context_ || PyType_Check(object) || PyFunction_Check(object) ||
      is_enum_member(object))
    return false;
  const bool array = is_new_array(object);
  auto type = array ? nullptr : instance_type(object);
  if (!array && !type)
    return false;
  note_made(object, true);
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
  for (auto &[child, made] : result_->made.found) {
    const auto times = std::count(given.begin(), given.end(), child);
    if (times > 0)
      made.references += references(object, child) - times;
  }
}

} // namespace tracehost::python
