#include "results.h"

#include "atoms.h"
#include "environment/gil.h"
#include "errors.h"
#include "walk.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

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

class Builder {
public:
  Builder(const OutputSpec &spec, torch::jit::Stack &outputs) : spec_(spec), outputs_(outputs) {}
  PyObject *value();

private:
  PyObject *sequence(const Node &node);
  PyObject *mapping(const Node &node);
  PyObject *record(const Node &node);
  static PyObject *type_of(const Node &node) {
    return static_cast<const Constant *>(node.payload.atom)->object();
  }

  const OutputSpec &spec_;
  torch::jit::Stack &outputs_;
  std::size_t at_ = 0;
};

PyObject *Builder::value() {
  const Node &node = spec_.nodes[at_++];
  switch (node.kind) {
  case Kind::tensor:
    return THPVariable_Wrap(outputs_[node.payload.slot].toTensor());
  case Kind::tuple:
  case Kind::list:
    return sequence(node);
  case Kind::dict:
    return mapping(node);
  case Kind::record:
    return record(node);
  default:
    return Py_NewRef(type_of(node));
  }
}

PyObject *Builder::sequence(const Node &node) {
  Owned items(PyList_New(0));
  while (items.get() && at_ < node.end) {
    const Owned item(value());
    if (!item.get() || PyList_Append(items.get(), item.get()))
      return nullptr;
  }
  PyObject *type = type_of(node);
  if (!items.get() || type == reinterpret_cast<PyObject *>(&PyList_Type))
    return items.release();
  Owned tuple(PyList_AsTuple(items.get()));
  if (!tuple.get() || type == reinterpret_cast<PyObject *>(&PyTuple_Type))
    return tuple.release();
  if (node.kind == Kind::tuple && PyObject_HasAttrString(type, "_make"))
    return PyObject_CallMethod(type, "_make", "(O)", tuple.get()); // "O" would unpack it
  return PyObject_CallOneArg(type, node.kind == Kind::list ? items.get() : tuple.get());
}

PyObject *Builder::mapping(const Node &node) {
  Owned result(PyObject_CallNoArgs(type_of(node)));
  while (result.get() && at_ < node.end) {
    const Owned key(value());
    const Owned item(key.get() ? value() : nullptr);
    if (!item.get() || PyObject_SetItem(result.get(), key.get(), item.get()))
      return nullptr;
  }
  return result.release();
}

PyObject *Builder::record(const Node &node) {
  auto *type = reinterpret_cast<PyTypeObject *>(type_of(node));
  Owned fields(PyObject_GetAttrString(type_of(node), "__dataclass_fields__"));
  Owned nothing(PyTuple_New(0));
  Owned result(fields.get() ? PyBaseObject_Type.tp_new(type, nothing.get(), nullptr) : nullptr);
  PyObject *name = nullptr, *field = nullptr;
  for (Py_ssize_t place = 0; result.get() && PyDict_Next(fields.get(), &place, &name, &field);) {
    const Owned item(value());
    // Past a frozen dataclass's own __setattr__, as its __init__ does.
    if (!item.get() || PyObject_GenericSetAttr(result.get(), name, item.get()))
      return nullptr;
  }
  return result.release();
}

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
    if (node.kind == Kind::tensor)
      continue;
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

PyObject *build_result(const OutputSpec &spec, torch::jit::Stack &outputs) {
  if (spec.nodes.size() == 1 && spec.nodes[0].kind == Kind::tensor) [[likely]]
    return THPVariable_Wrap(std::move(outputs[0]).toTensor());
  return Builder(spec, outputs).value();
}

} // namespace tracehost::python
