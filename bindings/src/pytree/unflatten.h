#pragma once

#include "base/object.h"
#include "pytree/assemble.h"
#include "pytree/container.h"
#include "pytree/pytree.h"
#include "pytree/results.h"
#include "signature/node.h"

#include <Python.h>

#include <cstdint>
#include <vector>

namespace tracehost::python {

/// Builds Python values from a flat tree whose containers' atoms are ContainerTypes. `Leaves` gives
/// new references, null with an error set:
///
///     PyObject *tensor(const Node &node);
///     PyObject *again(const Node &node, const Node &first);   // a Kind::alias, and what it names
///     PyObject *shared(const Node &node, std::vector<MadeOnce> &made);   // kShared, not made yet
///     PyObject *object(const Node &node);                     // any other leaf
///
/// Requires: GIL held.
template <class Leaves> class Tree {
public:
  Tree(const std::vector<Node> &nodes, Leaves &leaves) : nodes_(nodes), leaves_(leaves) {}
  /// One of several trees that have objects in common. `made`: what is made already.
  Tree(const std::vector<Node> &nodes, Leaves &leaves, std::uint32_t number,
       std::vector<MadeOnce> &made)
      : nodes_(nodes), leaves_(leaves), number_(number), made_(made) {}

  /// The subtree at `at`, and the place after it. Null with an error set if it can't be made.
  PyObject *value(std::size_t &at) {
    const Node &node = nodes_[at++];
    if (node.kind == Kind::tensor)
      return leaves_.tensor(node);
    const auto index = static_cast<std::uint32_t>(at - 1);
    if (node.kind == Kind::alias) {
      if constexpr (requires { leaves_.shared(node, made_); })
        if (node.reserved[1] == kShared)
          return shared(node);
      return leaves_.again(node, nodes_[node.payload.alias.node]);
    }
    if (node.reserved[2] == 0) [[likely]]
      return made(node, at);
    if (PyObject *already = find(number_, index)) {
      at = node.end;
      return already;
    }
    PyObject *object = made(node, at);
    if (object) // once more in this tree, or in another one
      made_.push_back({number_, index, Owned(Py_NewRef(object))});
    return object;
  }

private:
  PyObject *made(const Node &node, std::size_t &at) {
    if (!node.is_container())
      return leaves_.object(node);
    if constexpr (requires { leaves_.container(node); })
      if (PyObject *given = leaves_.container(node)) {
        at = node.end;
        return given;
      }
    return container(node, at);
  }

  /// A new reference, or null.
  PyObject *find(std::uint32_t tree, std::uint32_t node) const {
    for (const MadeOnce &one : made_)
      if (one.tree == tree && one.node == node)
        return Py_NewRef(one.object.get());
    return nullptr;
  }

  /// What another tree makes may not be made yet.
  PyObject *shared(const Node &node) {
    const auto [index, tree] = node.payload.alias;
    if (PyObject *already = find(tree, index))
      return already;
    return leaves_.shared(node, made_);
  }

  PyObject *container(const Node &node, std::size_t &at) {
    Children children;
    Owned more;
    while (at < node.end) {
      const Node &child = nodes_[at];
      if (child.kind == Kind::further) {
        ++at;
        more = Owned(further(child, at));
        if (!more)
          return nullptr;
      } else if (child.kind == Kind::absent) {
        ++at;
        children.emplace_back();
      } else {
        children.emplace_back(value(at));
        if (!children.back())
          return nullptr;
      }
    }
    const auto &type = *static_cast<const ContainerType *>(node.payload.atom);
    return put_together(type, children, more.get());
  }

  PyObject *further(const Node &node, std::size_t &at) {
    Owned result(PyDict_New());
    while (result && at < node.end) {
      const Owned name(value(at));
      const Owned item(name ? value(at) : nullptr);
      if (!item || PyDict_SetItem(result.get(), name.get(), item.get()))
        return nullptr;
    }
    return result.release();
  }

  const std::vector<Node> &nodes_;
  Leaves &leaves_;
  std::uint32_t number_ = 0;
  std::vector<MadeOnce> own_; ///< of a tree alone
  std::vector<MadeOnce> &made_ = own_;
};

} // namespace tracehost::python
