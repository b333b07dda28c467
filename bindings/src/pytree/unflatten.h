#pragma once

#include "base/object.h"
#include "pytree/assemble.h"
#include "pytree/container.h"
#include "signature/node.h"

#include <Python.h>

#include <utility>
#include <vector>

namespace tracehost::python {

/// Builds Python values from a flat tree whose containers' atoms are ContainerTypes. `Leaves` gives
/// new references, null with an error set:
///
///     PyObject *tensor(const Node &node);
///     PyObject *again(const Node &node, const Node &first);   // a Kind::alias, and what it names
///     PyObject *object(const Node &node);                     // any other leaf
///
/// Requires: GIL held.
template <class Leaves> class Tree {
public:
  Tree(const std::vector<Node> &nodes, Leaves &leaves) : nodes_(nodes), leaves_(leaves) {}

  /// The subtree at `at`, and the place after it. Null with an error set if it can't be made.
  PyObject *value(std::size_t &at) {
    const Node &node = nodes_[at++];
    if (node.kind == Kind::tensor)
      return leaves_.tensor(node);
    if (node.is_container()) {
      if constexpr (requires { leaves_.container(node); })
        if (PyObject *given = leaves_.container(node)) {
          at = node.end;
          return given;
        }
      const auto index = static_cast<std::uint32_t>(at - 1);
      PyObject *made = container(node, at);
      if (made && node.reserved[2] != 0) // once more in the tree
        shared_.emplace_back(index, Owned(Py_NewRef(made)));
      return made;
    }
    if (node.kind == Kind::alias) {
      for (const auto &[index, made] : shared_)
        if (index == node.payload.alias.node)
          return Py_NewRef(made.get());
      return leaves_.again(node, nodes_[node.payload.alias.node]);
    }
    const auto index = static_cast<std::uint32_t>(at - 1);
    PyObject *made = leaves_.object(node);
    if (made && node.reserved[2] != 0)
      shared_.emplace_back(index, Owned(Py_NewRef(made)));
    return made;
  }

private:
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
  std::vector<std::pair<std::uint32_t, Owned>> shared_; ///< made, by their nodes
};

} // namespace tracehost::python
