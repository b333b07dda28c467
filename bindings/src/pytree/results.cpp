#include "pytree/results.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "numbers/traced_number.h"
#include "pytree/arrays.h"
#include "pytree/assemble.h"
#include "pytree/flattener.h"
#include "pytree/leaf.h"
#include "pytree/pytree.h"
#include "pytree/unflatten.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tracehost::python {
namespace {

/// Leaves come back as the same objects as in the trace, because they can't change. An array can
/// change, so each result gets a copy of an array that nobody else has.
class Constant final : public PyAtom {
public:
  /// Throws python_error.
  explicit Constant(PyObject *object) : Constant(object, is_new_array(object)) {}
  bool same(const Atom &other) const override { return this == &other; }
  std::string text() const override;
  PyObject *borrowed() const { return held(); }
  /// For a result: a new reference, or null with an error set.
  PyObject *handed_out() const { return copied_ ? copy_of_array(held()) : object(); }

private:
  Constant(PyObject *object, bool copied)
      : PyAtom(checked(copied ? copy_of_array(object) : Py_NewRef(object)).get(),
               Compare::identity),
        copied_(copied) {}
  bool copied_;
};

std::string Constant::text() const {
  const WithGil gil;
  const KeepError keep;
  PyObject *object = held();
  // No user's code.
  const bool plain = object == Py_None || PyUnicode_CheckExact(object) ||
                     PyLong_CheckExact(object) || PyBool_Check(object) ||
                     PyFloat_CheckExact(object);
  const Owned repr(plain ? PyObject_Repr(object) : nullptr);
  std::string result = repr ? utf8(repr.get()) : Py_TYPE(object)->tp_name;
  if (result.size() > 60)
    result = result.substr(0, result.find_last_of(' ', 57)) + "...";
  return result;
}

/// Node::reserved[1]: the tensor is a number for the caller, a traced size or one that a block
/// made.
constexpr std::uint8_t kNumber = 1;

PyObject *constant(const Node &node) {
  return static_cast<const Constant *>(node.payload.atom)->handed_out();
}

PyObject *given_object(const Node &node, std::span<PyObject *const> given) {
  if (node.reserved[1] == kGiven && node.payload.alias.root < given.size())
    return Py_NewRef(given[node.payload.alias.root]);
  PyErr_SetString(PyExc_TypeError, "the result holds an object from outside the body, which is "
                                   "known to calls of the Function alone. Call that.");
  return nullptr;
}

struct Outputs {
  PyObject *tensor(const Node &node) const {
    const at::Tensor &t = values.outputs[node.payload.slot].toTensor();
    return node.reserved[1] == kNumber ? number_of(t) : THPVariable_Wrap(t);
  }
  PyObject *object(const Node &node) const { return constant(node); }
  PyObject *again(const Node &node, const Node &) const { return given_object(node, values.given); }
  PyObject *shared(const Node &node, std::vector<MadeOnce> &made) {
    const auto [index, tree] = node.payload.alias;
    std::size_t at = index;
    return Tree(values.tree(tree).nodes, *this, tree, made).value(at);
  }
  /// A new reference; null: it is made again.
  PyObject *container(const Node &node) const {
    const std::size_t number = node.reserved[1];
    return number && number <= values.containers.size() ? Py_XNewRef(values.containers[number - 1])
                                                        : nullptr;
  }
  RunValues &values;
};

struct Given {
  PyObject *tensor(const Node &node) const { return Py_NewRef(objects[node.payload.slot]); }
  PyObject *object(const Node &node) const { return constant(node); }
  PyObject *again(const Node &node, const Node &) const { return given_object(node, {}); }
  PyObject *shared(const Node &node, std::vector<MadeOnce> &) const {
    return given_object(node, {}); // the result has all that it needs
  }
  const std::vector<PyObject *> &objects;
};

bool same_leaf(PyObject *a, PyObject *b) {
  if (a == b)
    return true;
  if (Py_TYPE(a) != Py_TYPE(b))
    return false;
  if (is_array(a))
    return same_array(a, b);
  if (PyFloat_CheckExact(a) && std::isnan(PyFloat_AS_DOUBLE(a)) && std::isnan(PyFloat_AS_DOUBLE(b)))
    return true;
  const int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0)
    forget_error();
  return equal == 1;
}

/// A number of the graph as the body has it.
at::Tensor number_in(const Node &node) {
  if (node.kind != Kind::atom)
    return {};
  const auto *leaf = dynamic_cast<const Constant *>(node.payload.atom);
  PyObject *number = leaf ? leaf->borrowed() : Py_None;
  if (PyBool_Check(number))
    return at::scalar_tensor(number == Py_True, at::kBool);
  if (PyFloat_CheckExact(number))
    return at::scalar_tensor(PyFloat_AS_DOUBLE(number), c10::get_default_dtype_as_scalartype());
  return PyLong_CheckExact(number) ? at::scalar_tensor(PyLong_AsLongLong(number), at::kLong)
                                   : at::Tensor();
}

/// Whether two nodes that are no tensors say the same.
bool same_node(const Node &a, const Node &b) {
  if (a.kind != b.kind || a.end != b.end)
    return false;
  const auto *x = a.has_atom() ? dynamic_cast<const Constant *>(a.payload.atom) : nullptr;
  const auto *y = b.has_atom() ? dynamic_cast<const Constant *>(b.payload.atom) : nullptr;
  return x && y ? same_leaf(x->borrowed(), y->borrowed()) : same(a, b);
}

/// Whether a later call can return this very leaf.
bool can_return(PyObject *leaf, const Node &node) {
  return !node.reserved[0] || is_enum_member(leaf) || is_importable(leaf) ||
         PyUnicode_Check(leaf) || PyLong_Check(leaf) || PyFloat_Check(leaf) ||
         PyComplex_Check(leaf) || PyBytes_Check(leaf) || is_array(leaf);
}

[[noreturn]] void reject(const std::string &function, PyTypeObject *type) {
  raise(PyExc_TypeError,
        fmt::format("{} returned a {}, which a later call could not make again. Return tensors, "
                    "numbers, strings, None, dtypes, devices, enums, or tuples, lists, dicts, "
                    "dataclasses and new objects of them.",
                    function, type->tp_name));
}

/// Whether the node before the `index`th says that it is a defaultdict's factory, which may be any
/// function.
bool is_factory(const std::vector<Node> &nodes, std::size_t index, PyObject *before) {
  return index > 1 && nodes[index - 2].kind == Kind::further && before &&
         PyUnicode_CheckExact(before) &&
         PyUnicode_CompareWithASCIIString(before, "default_factory") == 0;
}

} // namespace

static OutputSpec spec_of(FlatValue flat, const std::string &function,
                          std::vector<Owned> &tensors) {
  OutputSpec spec;
  spec.nodes = std::move(flat.nodes);
  spec.atoms = std::move(flat.atoms);
  spec.tensors = flat.tensors.size();
  PyObject *before = nullptr;
  std::size_t next = 0;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    Node &node = spec.nodes[i];
    if (node.kind == Kind::tensor) {
      node.reserved[1] = is_number(flat.tensors[node.payload.slot]) ? kNumber : 0;
      before = nullptr;
      continue;
    }
    PyObject *object = flat.objects[next++]; // a leaf, or a container's class
    PyObject *const name = std::exchange(before, object);
    if (node.kind == Kind::further || node.kind == Kind::absent || node.kind == Kind::alias)
      continue;
    if (node.is_container()) {
      if (!can_be_made(*static_cast<const ContainerType *>(node.payload.atom)))
        reject(function, reinterpret_cast<PyTypeObject *>(object));
      continue;
    }
    if (!can_return(object, node) && !is_factory(spec.nodes, i, name))
      reject(function, Py_TYPE(object));
    auto constant = std::make_shared<Constant>(object);
    node.kind = Kind::atom;
    node.payload.atom = constant.get();
    spec.atoms.push_back(std::move(constant));
  }
  for (PyObject *tensor : flat.tensors)
    tensors.emplace_back(Py_NewRef(tensor));
  return spec;
}

OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors, const Returnable &returnable,
                           MadeObjects &made) {
  ResultObjects objects{returnable.given, returnable.containers, returnable.reached, made,
                        returnable.has_attributes};
  try {
    FlatValue flat;
    try {
      flat = flatten(result, Purpose::result, nullptr, &objects);
    } catch (...) {
      rethrow_about("the result of " + function);
    }
    return spec_of(std::move(flat), function, tensors);
  } catch (...) {
    made.undo();
    throw;
  }
}

OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors, const Returnable &returnable) {
  MadeObjects made;
  OutputSpec spec = describe_result(result, function, tensors, returnable, made);
  for (const auto &[object, one] : made.found)
    if (is_held_elsewhere(object, one))
      reject_held(object, function);
  return spec;
}

void reject_held(PyObject *object, const std::string &function) {
  raise(PyExc_TypeError,
        fmt::format("{} returned a {} that something else refers to as well, so a later call "
                    "could not make it again. Return what it is made of, or an object that "
                    "the body has made and kept nowhere.",
                    function, Py_TYPE(object)->tp_name));
}

/// Whether it stands for an object that another tree has made.
static bool is_of_another(const Node &node, std::uint32_t tree) {
  return node.kind == Kind::alias && node.reserved[1] == kShared && node.payload.alias.root != tree;
}

std::vector<bool> trees_with(std::span<OutputSpec *const> trees, const MadeObjects::Made &place) {
  std::vector<bool> result(trees.size());
  result[place.tree] = true;
  for (std::uint32_t t = 0; t < trees.size(); ++t)
    for (const Node &node : trees[t]->nodes)
      if (is_of_another(node, t) && node.payload.alias.root == place.tree &&
          node.payload.alias.node == place.node)
        result[t] = true;
  return result;
}

void link(std::span<OutputSpec *const> trees) {
  for (std::uint32_t t = 0; t < trees.size(); ++t)
    for (const Node &node : trees[t]->nodes)
      if (is_of_another(node, t))
        trees[node.payload.alias.root]->nodes[node.payload.alias.node].reserved[2] = kShared;
}

std::vector<bool> linked(std::span<OutputSpec *const> trees, std::vector<bool> differ) {
  for (bool more = true; more;) {
    more = false;
    for (std::uint32_t t = 0; t < trees.size(); ++t)
      for (const Node &node : trees[t]->nodes)
        if (is_of_another(node, t) && differ[t] != differ[node.payload.alias.root])
          more = differ[t] = differ[node.payload.alias.root] = true;
  }
  return differ;
}

bool returns_numbers(const OutputSpec &spec) {
  return std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const Node &node) {
    return node.kind == Kind::tensor && node.reserved[1] == kNumber;
  });
}

std::string difference(const OutputSpec &graph, const OutputSpec &body,
                       const std::vector<Owned> &tensors, std::vector<at::Tensor> &aligned) {
  Signature x, y; // to name and show nodes
  x.parameters = y.parameters = std::make_shared<Parameters>(Parameters{{"output"}, {}, {}});
  x.nodes = graph.nodes;
  y.nodes = body.nodes;
  aligned.assign(graph.tensors, {});
  for (std::size_t i = 0; i < std::min(x.nodes.size(), y.nodes.size()); ++i) {
    const Node &a = x.nodes[i], &b = y.nodes[i];
    bool same = a.kind == b.kind;
    if (a.kind == Kind::tensor) {
      const at::Tensor t = a.reserved[1] == kNumber ? number_in(b)
                           : same ? THPVariable_Unpack(tensors[b.payload.slot].get())
                                  : at::Tensor();
      at::Tensor &place = aligned[a.payload.slot];
      same = t.defined() && (!place.defined() || place.is_same(t));
      place = t;
    } else {
      same = same_node(a, b);
    }
    const auto shown = [](const Signature &of, const Node &node) {
      return node.kind == Kind::tensor ? std::string("a tensor") : text(of, node);
    };
    if (!same)
      return fmt::format("{}: {} in the graph, {} in the body", path(x, i), shown(x, a),
                         a.kind == b.kind && a.kind == Kind::tensor ? "another tensor"
                                                                    : shown(y, b));
  }
  return x.nodes.size() == y.nodes.size() ? std::string() : "output has other parts in the body";
}

PyObject *build_result(RunValues &values) {
  const OutputSpec &spec = values.result;
  if (spec.nodes.size() == 1 && spec.nodes[0].kind == Kind::tensor &&
      spec.nodes[0].reserved[1] != kNumber) [[likely]]
    return THPVariable_Wrap(std::move(values.outputs[spec.nodes[0].payload.slot]).toTensor());
  return build_stored(values, 0);
}

PyObject *build_stored(RunValues &values, std::uint32_t tree) {
  Outputs leaves{values};
  std::size_t at = 0;
  return Tree(values.tree(tree).nodes, leaves, tree, values.made).value(at);
}

PyObject *build_result(const OutputSpec &spec, const std::vector<PyObject *> &in_place_of_tensors) {
  Given leaves{in_place_of_tensors};
  std::size_t at = 0;
  return Tree(spec.nodes, leaves).value(at);
}

} // namespace tracehost::python
