#include "results.h"

#include "atoms.h"
#include "environment/gil.h"
#include "errors.h"
#include "traced_size.h"
#include "tree.h"
#include "walk.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>

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

PyObject *constant(const Node &node) {
  return Py_NewRef(static_cast<const Constant *>(node.payload.atom)->object());
}

/// Node::reserved[1]: the tensor is a traced size, an int for the caller.
constexpr std::uint8_t kSize = 1;

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

} // namespace

OutputSpec describe_result(PyObject *result, const std::string &function,
                           std::vector<PyObject *> &tensors) {
  OutputSpec spec;
  std::vector<PyObject *> leaves;
  try {
    flatten(result, spec.nodes, spec.atoms, tensors, leaves);
  } catch (...) {
    rethrow_about("the result of " + function);
  }
  std::size_t next = 0;
  for (Node &node : spec.nodes) {
    if (node.kind == Kind::tensor) {
      node.reserved[1] = is_traced_size(tensors[node.payload.slot]) ? kSize : 0;
      continue;
    }
    PyObject *object = leaves[next++]; // a leaf, or a container's type
    if (node.reserved[0] && !is_enum_member(object))
      raise(
          PyExc_TypeError,
          fmt::format("{} returned a {}, which a later call could not return anew. Return tensors, "
                      "numbers, strings, None, dtypes, devices, enums, or tuples, lists, dicts and "
                      "dataclasses of them.",
                      function, Py_TYPE(object)->tp_name));
    auto constant = std::make_shared<Constant>(object);
    node.payload.atom = constant.get();
    spec.atoms.push_back(std::move(constant));
  }
  spec.tensors = tensors.size();
  return spec;
}

bool returns_sizes(const OutputSpec &spec) {
  return std::any_of(spec.nodes.begin(), spec.nodes.end(),
                     [](const Node &node) { return node.reserved[1] == kSize; });
}

PyObject *build_result(const OutputSpec &spec, torch::jit::Stack &outputs) {
  if (spec.nodes.size() == 1 && spec.nodes[0].kind == Kind::tensor &&
      spec.nodes[0].reserved[1] != kSize) [[likely]]
    return THPVariable_Wrap(std::move(outputs[0]).toTensor());
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
