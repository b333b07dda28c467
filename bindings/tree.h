#pragma once

#include "environment/gil.h"
#include "signature/node.h"

#include <Python.h>

#include <vector>

namespace tracehost::python {

/// Builds Python values from a flat tree. `Leaves` gives new references, null with an error set:
///
///     PyObject *tensor(const Node &node);
///     PyObject *object(const Node &node);   // a leaf, or the class of a container
///
/// Requires: GIL held.
template <class Leaves> class Tree {
public:
  Tree(const std::vector<Node> &nodes, Leaves &leaves) : nodes_(nodes), leaves_(leaves) {}

  /// The subtree at `at`, and the place after it. Null with an error set if it can't be made.
  PyObject *value(std::size_t &at) {
    const Node &node = nodes_[at++];
    switch (node.kind) {
    case Kind::tensor:
      return leaves_.tensor(node);
    case Kind::tuple:
    case Kind::list:
      return sequence(node, at);
    case Kind::dict:
      return mapping(node, at);
    case Kind::record:
      return record(node, at);
    default:
      return leaves_.object(node);
    }
  }

private:
  PyObject *sequence(const Node &node, std::size_t &at) {
    Owned items(PyList_New(0));
    while (items && at < node.end) {
      const Owned item(value(at));
      if (!item || PyList_Append(items.get(), item.get()))
        return nullptr;
    }
    const Owned type(items ? leaves_.object(node) : nullptr);
    if (!type || type.get() == reinterpret_cast<PyObject *>(&PyList_Type))
      return type ? items.release() : nullptr;
    Owned tuple(PyList_AsTuple(items.get()));
    if (!tuple || type.get() == reinterpret_cast<PyObject *>(&PyTuple_Type))
      return tuple.release();
    if (node.kind == Kind::tuple && PyObject_HasAttrString(type.get(), "_make"))
      return PyObject_CallMethod(type.get(), "_make", "(O)", tuple.get()); // "O" would unpack it
    return PyObject_CallOneArg(type.get(), node.kind == Kind::list ? items.get() : tuple.get());
  }

  PyObject *mapping(const Node &node, std::size_t &at) {
    const Owned type(leaves_.object(node));
    Owned result(type ? PyObject_CallNoArgs(type.get()) : nullptr);
    while (result && at < node.end) {
      const Owned key(value(at));
      const Owned item(key ? value(at) : nullptr);
      if (!item || PyObject_SetItem(result.get(), key.get(), item.get()))
        return nullptr;
    }
    return result.release();
  }

  PyObject *record(const Node &node, std::size_t &at) {
    const Owned type(leaves_.object(node));
    const Owned fields(type ? PyObject_GetAttrString(type.get(), "__dataclass_fields__") : nullptr);
    const Owned nothing(PyTuple_New(0));
    Owned result(fields && nothing
                     ? PyBaseObject_Type.tp_new(reinterpret_cast<PyTypeObject *>(type.get()),
                                                nothing.get(), nullptr)
                     : nullptr);
    PyObject *name = nullptr, *field = nullptr;
    for (Py_ssize_t place = 0; result && PyDict_Next(fields.get(), &place, &name, &field);) {
      const Owned item(value(at));
      // Past a frozen dataclass's own __setattr__, as its __init__ does.
      if (!item || PyObject_GenericSetAttr(result.get(), name, item.get()))
        return nullptr;
    }
    return result.release();
  }

  const std::vector<Node> &nodes_;
  Leaves &leaves_;
};

} // namespace tracehost::python
