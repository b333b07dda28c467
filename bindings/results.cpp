#include "results.h"

#include "assemble.h"
#include "atoms.h"
#include "environment/gil.h"
#include "errors.h"
#include "traced_size.h"
#include "tree.h"
#include "walk.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tracehost::python {
namespace {

/// Leaves come back as the very objects of the trace: they can't change.
class Constant final : public Atom {
public:
  explicit Constant(PyObject *object) : object_(Py_NewRef(object)) {}
  ~Constant() override {
    if (!python_alive())
      return;
    const WithGil gil;
    Py_DECREF(object_);
  }
  bool same(const Atom &other) const override { return this == &other; }
  std::string text() const override { return Py_TYPE(object_)->tp_name; }
  PyObject *object() const { return object_; }

private:
  PyObject *object_;
};

/// Node::reserved[1]: the tensor is a traced size, an int for the caller.
constexpr std::uint8_t kSize = 1;

PyObject *constant(const Node &node) {
  return Py_NewRef(static_cast<const Constant *>(node.payload.atom)->object());
}

struct Outputs {
  PyObject *tensor(const Node &node) const {
    const at::Tensor &t = stack[node.payload.slot].toTensor();
    return node.reserved[1] == kSize ? PyLong_FromLongLong(t.item().toLong()) : THPVariable_Wrap(t);
  }
  PyObject *object(const Node &node) const { return constant(node); }
  torch::jit::Stack &stack;
};

struct Given {
  PyObject *tensor(const Node &node) const { return Py_NewRef(objects[node.payload.slot]); }
  PyObject *object(const Node &node) const { return constant(node); }
  const std::vector<PyObject *> &objects;
};

/// Whether a later call can return this very leaf.
bool can_return(PyObject *leaf, const Node &node) {
  return (!node.reserved[0] && node.kind != Kind::again) || is_enum_member(leaf) ||
         PyUnicode_Check(leaf) || PyLong_Check(leaf) || PyFloat_Check(leaf) ||
         PyComplex_Check(leaf) || PyBytes_Check(leaf);
}

[[noreturn]] void refuse(const std::string &function, PyTypeObject *type) {
  raise(PyExc_TypeError,
        fmt::format("{} returned a {}, which a later call could not return anew. Return tensors, "
                    "numbers, strings, None, dtypes, devices, enums, or tuples, lists, dicts and "
                    "dataclasses of them.",
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

OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<Owned> &tensors) {
  FlatValue flat;
  try {
    flat = flatten(result, Purpose::result);
  } catch (...) {
    rethrow_about("the result of " + function);
  }
  OutputSpec spec;
  spec.nodes = std::move(flat.nodes);
  spec.atoms = std::move(flat.atoms);
  spec.tensors = flat.tensors.size();
  PyObject *before = nullptr;
  std::size_t next = 0;
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    Node &node = spec.nodes[i];
    if (node.kind == Kind::tensor) {
      node.reserved[1] = is_traced_size(flat.tensors[node.payload.slot]) ? kSize : 0;
      before = nullptr;
      continue;
    }
    PyObject *object = flat.objects[next++]; // a leaf, or a container's class
    PyObject *const name = std::exchange(before, object);
    if (node.kind == Kind::further || node.kind == Kind::absent)
      continue;
    if (node.is_container()) {
      if (!can_be_made(*static_cast<const ContainerType *>(node.payload.atom)))
        refuse(function, reinterpret_cast<PyTypeObject *>(object));
      continue;
    }
    if (!can_return(object, node) && !is_factory(spec.nodes, i, name))
      refuse(function, Py_TYPE(object));
    auto constant = std::make_shared<Constant>(object);
    node.kind = Kind::atom;
    node.payload.atom = constant.get();
    spec.atoms.push_back(std::move(constant));
  }
  for (PyObject *tensor : flat.tensors)
    tensors.emplace_back(Py_NewRef(tensor));
  return spec;
}

bool returns_sizes(const OutputSpec &spec) {
  return std::any_of(spec.nodes.begin(), spec.nodes.end(), [](const Node &node) {
    return node.kind == Kind::tensor && node.reserved[1] == kSize;
  });
}

PyObject *build_result(const OutputSpec &spec, torch::jit::Stack &outputs) {
  if (spec.nodes.size() == 1 && spec.nodes[0].kind == Kind::tensor &&
      spec.nodes[0].reserved[1] != kSize) [[likely]]
    return THPVariable_Wrap(std::move(outputs[spec.nodes[0].payload.slot]).toTensor());
  Outputs leaves{outputs};
  std::size_t at = 0;
  return Tree(spec.nodes, leaves).value(at);
}

PyObject *build_result(const OutputSpec &spec, const std::vector<PyObject *> &in_place_of_tensors) {
  Given leaves{in_place_of_tensors};
  std::size_t at = 0;
  return Tree(spec.nodes, leaves).value(at);
}

} // namespace tracehost::python
