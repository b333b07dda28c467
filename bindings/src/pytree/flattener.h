#pragma once

#include "base/known.h"
#include "pytree/container.h"
#include "pytree/pytree.h"

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

/// The walk that flattens; pytree.h has what other folders call.

namespace tracehost::python {

/// Whether the body can read the leaf's attributes, cells and globals: kRoot and its like, or 0.
std::uint8_t mark_of(PyObject *object, const Node &node);

/// Whether a class or function is found in its module by its name: it is the same at each call.
bool is_importable(PyObject *leaf);

/// Appends the nodes of values, depth first. Requires: GIL held.
class Flattener {
public:
  Flattener(std::vector<Node> &nodes, std::vector<AtomRef> &atoms, std::vector<PyObject *> &tensors,
            Purpose purpose, UserValues *values, ResultObjects *result = nullptr)
      : nodes_(nodes), atoms_(atoms), tensors_(tensors), purpose_(purpose), values_(values),
        result_(result) {}

  void value(PyObject *object);
  std::size_t open(std::shared_ptr<const ContainerType> type);
  void close(std::size_t index) { nodes_[index].end = static_cast<std::uint32_t>(nodes_.size()); }
  void leaf_node(PyObject *object);
  /// By identity, regardless of its class.
  void instance(PyObject *object);

  bool alike = false; ///< some objects are compared by their class: kAlikeRoot
  std::vector<PyObject *> roots;
  std::vector<std::size_t> root_nodes;
  std::vector<PyObject *> objects; ///< a leaf or a container's type for each node but tensors
  std::vector<Owned> kept;         ///< what only the walk itself holds
  /// By slot: what users' types say of the tensor; nothing where some place has it as it is.
  std::vector<std::optional<TensorSpec>> specs;

private:
  void slow(PyObject *object);
  void typed(PyObject *object);
  bool from_outside(PyObject *object);
  bool of_result(PyObject *object);
  bool met_again(PyObject *object);
  void note_made(PyObject *object, bool counted);
  bool with_attributes(PyObject *tensor);
  void number_container(PyObject *object, std::size_t node);
  void again(PyObject *object, std::uint8_t what, Node::Payload payload);
  void container(PyObject *object, std::shared_ptr<ContainerType> type);
  void children(PyObject *object, const ContainerType &type);
  void context(PyObject *object);
  void count_references(PyObject *object, std::span<PyObject *const> given);
  void further(PyObject *object, const ContainerType &type);
  void key(PyObject *object) {
    PyTuple_Check(object) || is_traced_number(object) ? value(object) : leaf_node(object);
  }
  void atom(PyObject *object, std::uint8_t mark);
  void tensor(PyObject *object, const TensorSpec *spec = nullptr);
  void add(Node node, PyObject *object, std::uint8_t mark);
  /// Holds a value that the walk has made, or got from a user's code, until the walk's owner goes.
  PyObject *keep(Owned object) {
    kept.push_back(std::move(object));
    return kept.back().get();
  }

  std::vector<Node> &nodes_;
  std::vector<AtomRef> &atoms_;
  std::vector<PyObject *> &tensors_;
  const Purpose purpose_;
  UserValues *const values_;
  ResultObjects *const result_; ///< null: none are expected
  bool in_context_ = false;
  std::unordered_map<const c10::TensorImpl *, std::uint32_t> slots_;
  std::unordered_map<PyTypeObject *, std::shared_ptr<ContainerType>> types_;
  /// Objects that others may come in the place of: where they were met first.
  std::unordered_map<PyObject *, std::pair<std::size_t, std::size_t>> met_;
  Nesting nesting_;
};

} // namespace tracehost::python
