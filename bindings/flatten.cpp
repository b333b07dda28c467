#include "walk.h"

#include "arrays.h"
#include "atoms.h"
#include "environment/gil.h"
#include "environment/known.h"
#include "errors.h"
#include "traced_size.h"
#include "user_type.h"

#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace tracehost::python {
namespace {

/// Instances, functions and classes: their attributes, cells and globals can be read by the body.
bool is_root(PyObject *object) {
  return !PyUnicode_Check(object) && !PyBytes_Check(object) && !PyLong_Check(object) &&
         !PyComplex_Check(object) && !THPDtype_Check(object) && !THPLayout_Check(object) &&
         !PyCFunction_Check(object);
}

class Flattener {
public:
  Flattener(std::vector<Node> &nodes, std::vector<AtomRef> &atoms, std::vector<PyObject *> &tensors)
      : nodes_(nodes), atoms_(atoms), tensors_(tensors) {}

  void value(PyObject *object);
  std::size_t open(Kind kind, PyObject *type);
  void close(std::size_t index) { nodes_[index].end = static_cast<std::uint32_t>(nodes_.size()); }
  void leaf_node(PyObject *object);
  void typed_leaf(PyObject *object);
  void instance(PyObject *object);

  std::vector<PyObject *> roots;
  std::vector<std::size_t> root_nodes;
  std::vector<PyObject *> objects; ///< a leaf or a container's type for each node but tensors

private:
  void container(PyObject *object);
  void root(PyObject *object, std::uint8_t kind);
  void tensor(PyObject *object);

  std::vector<Node> &nodes_;
  std::vector<AtomRef> &atoms_;
  std::vector<PyObject *> &tensors_;
  std::unordered_map<const c10::TensorImpl *, std::uint32_t> slots_;
  Nesting nesting_;
};

std::size_t Flattener::open(Kind kind, PyObject *type) {
  auto atom = std::make_shared<PyAtom>(type, PyAtom::Compare::identity);
  Node node;
  node.kind = kind;
  node.payload.atom = atom.get();
  objects.push_back(type);
  atoms_.push_back(std::move(atom));
  nodes_.push_back(node);
  return nodes_.size() - 1;
}

void Flattener::leaf_node(PyObject *object) {
  Node node = leaf(object, atoms_);
  node.end = static_cast<std::uint32_t>(nodes_.size() + 1);
  if (node.kind == Kind::atom && is_root(object)) {
    node.reserved[0] = kRoot;
    roots.push_back(object);
    root_nodes.push_back(nodes_.size());
  }
  objects.push_back(object);
  nodes_.push_back(node);
}

void Flattener::typed_leaf(PyObject *object) {
  atoms_.push_back(std::make_shared<PyAtom>(user_type(object), Py_TYPE(object)));
  root(object, kTypedRoot);
}

/// A leaf of the atom added last.
void Flattener::root(PyObject *object, std::uint8_t kind) {
  Node node;
  node.kind = Kind::atom;
  node.payload.atom = atoms_.back().get();
  node.end = static_cast<std::uint32_t>(nodes_.size() + 1);
  node.reserved[0] = kind;
  roots.push_back(object);
  root_nodes.push_back(nodes_.size());
  objects.push_back(object);
  nodes_.push_back(node);
}

void Flattener::instance(PyObject *object) {
  atoms_.push_back(std::make_shared<PyAtom>(object, PyAtom::Compare::weak_identity));
  root(object, kRoot);
}

void Flattener::tensor(PyObject *object) {
  const auto *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
  const auto [known, added] = slots_.emplace(impl, static_cast<std::uint32_t>(tensors_.size()));
  if (added)
    tensors_.push_back(object);
  Node node;
  node.kind = Kind::tensor;
  node.payload.slot = known->second;
  node.end = static_cast<std::uint32_t>(nodes_.size() + 1);
  nodes_.push_back(node);
}

void Flattener::value(PyObject *object) {
  if (is_tensor(object) || is_traced_size(object))
    return tensor(object);
  if (has_user_type(Py_TYPE(object)))
    return typed_leaf(object);
  if (PyAnySet_Check(object))
    raise(errors().signature, "a set has no fixed order. Use a tuple, or sorted(...) of it.");
  if (is_array(object))
    raise(errors().signature,
          fmt::format("a {} is no tensor. Use torch.as_tensor(value).", Py_TYPE(object)->tp_name));
  const bool may_nest =
      PyTuple_Check(object) || PyList_Check(object) || PyDict_Check(object) || is_dataclass(object);
  if (!may_nest || PyType_Check(object))
    return leaf_node(object);
  nesting_.enter(object);
  container(object);
  nesting_.leave();
}

void Flattener::container(PyObject *object) {
  auto *type = reinterpret_cast<PyObject *>(Py_TYPE(object));
  if (PyTuple_Check(object) || PyList_Check(object)) {
    const std::size_t at = open(PyTuple_Check(object) ? Kind::tuple : Kind::list, type);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
      value(PySequence_Fast_GET_ITEM(object, i));
    close(at);
  } else if (PyDict_Check(object)) {
    const std::size_t at = open(Kind::dict, type);
    PyObject *key = nullptr, *item = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(object, &place, &key, &item);) {
      PyTuple_Check(key) || is_traced_size(key) ? value(key) : leaf_node(key);
      value(item);
    }
    close(at);
  } else {
    const std::size_t at = open(Kind::record, type);
    PyObject *fields = PyObject_GetAttrString(type, "__dataclass_fields__");
    if (!fields)
      rethrow();
    PyObject *name = nullptr, *field = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(fields, &place, &name, &field);) {
      PyObject *item = PyObject_GetAttr(object, name);
      if (!item)
        rethrow();
      value(item);
      Py_DECREF(item); // the instance holds it
    }
    Py_DECREF(fields);
    close(at);
  }
}

/// `place`: how many fixed parameters came before.
void parameter(Flattener &walk, const Parameter &p, const Bound &bound, const PyObject *self,
               std::size_t &place) {
  if (p.kind == Parameter::Kind::var_positional) {
    const std::size_t at = walk.open(Kind::tuple, reinterpret_cast<PyObject *>(&PyTuple_Type));
    for (std::size_t i = 0; i < bound.extra_count; ++i)
      walk.value(bound.extra[i]);
    walk.close(at);
  } else if (p.kind == Parameter::Kind::var_keyword) {
    const std::size_t at = walk.open(Kind::dict, reinterpret_cast<PyObject *>(&PyDict_Type));
    for (const auto &[name, value] : bound.keywords) {
      walk.leaf_node(name);
      walk.value(value);
    }
    walk.close(at);
  } else {
    PyObject *value = bound.values[place];
    place++ == 0 && value == self ? walk.instance(value) : walk.value(value);
  }
}

} // namespace

void Nesting::enter(PyObject *container) {
  const char *name = Py_TYPE(container)->tp_name;
  if (std::find(open_.begin(), open_.end(), container) != open_.end())
    raise(errors().signature, fmt::format("a {} contains itself. Use it without the cycle.", name));
  if (open_.size() >= kDeepest)
    raise(errors().signature,
          fmt::format("nested deeper than {} levels, at a {}. Use flatter data.", kDeepest, name));
  open_.push_back(container);
}

bool is_dataclass(PyObject *object) {
  static PyObject *const name = PyUnicode_InternFromString("__dataclass_fields__");
  return _PyType_Lookup(Py_TYPE(object), name) != nullptr;
}

void rethrow_about(const std::string &subject) {
  set_from_current_exception();
  if (!PyErr_ExceptionMatches(errors().signature))
    rethrow();
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Owned text(PyObject_Str(value));
  const Owned args(Py_BuildValue("(s)", fmt::format("{}: {}", subject, utf8(text.get())).c_str()));
  if (!args || PyObject_SetAttrString(value, "args", args.get())) // in place: it may have a cause
    PyErr_Clear();
  PyErr_Restore(type, value, traceback);
  rethrow();
}

void flatten(const Binder &binder, const Bound &bound, PyObject *self, Signature &signature,
             Flattened &found) {
  Flattener walk(signature.nodes, signature.atoms, found.tensors);
  std::size_t place = 0;
  for (const Parameter &p : binder.parameters()) {
    try {
      parameter(walk, p, bound, self, place);
    } catch (...) {
      rethrow_about(fmt::format("argument '{}'", PyUnicode_AsUTF8(p.name)));
    }
  }
  for (PyObject *t : found.tensors)
    signature.slots.push_back(
        TensorMeta::of(THPVariable_Unpack(t), Py_TYPE(t), Py_TYPE(t)->tp_name));
  found.roots = std::move(walk.roots);
  found.root_nodes = std::move(walk.root_nodes);
}

void flatten(PyObject *value, std::vector<Node> &nodes, std::vector<AtomRef> &atoms,
             std::vector<PyObject *> &tensors, std::vector<PyObject *> &objects) {
  Flattener walk(nodes, atoms, tensors);
  walk.value(value);
  objects = std::move(walk.objects);
}

} // namespace tracehost::python
