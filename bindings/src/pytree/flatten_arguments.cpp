#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "pytree/flattener.h"
#include "pytree/leaf.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>

/// The arguments of a call become a Signature's tree; a value becomes a tree of its own.

namespace tracehost::python {
namespace {

/// `place`: how many fixed parameters came before.
void parameter(Flattener &walk, const Parameter &p, const Bound &bound, const PyObject *self,
               std::size_t &place) {
  if (p.kind == Parameter::Kind::var_positional) {
    const std::size_t at = walk.open(std::make_shared<ContainerType>(&PyTuple_Type, Form::tuple));
    for (std::size_t i = 0; i < bound.extra_count; ++i)
      walk.value(bound.extra[i]);
    walk.close(at);
  } else if (p.kind == Parameter::Kind::var_keyword) {
    const std::size_t at = walk.open(std::make_shared<ContainerType>(&PyDict_Type, Form::dict));
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

/// See kDefault.
void mark_default(Node &node, const Parameter &p, PyObject *value) {
  const bool leaf = !node.is_container() && node.kind != Kind::tensor && node.kind != Kind::alias;
  if (value != p.default_value.get() || !leaf || node.reserved[0])
    return;
  if (node.kind != Kind::atom || static_cast<const PyAtom *>(node.payload.atom)->is(value))
    node.reserved[1] = kDefault;
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

void rethrow_about(const std::string &subject) {
  set_from_current_exception();
  if (!PyErr_ExceptionMatches(errors().signature))
    rethrow();
  Owned error = take_error();
  const Owned text(PyObject_Str(error.get()));
  const Owned args(Py_BuildValue("(s)", fmt::format("{}: {}", subject, utf8(text.get())).c_str()));
  // In place, because it may have a cause.
  if (!args || PyObject_SetAttrString(error.get(), "args", args.get()))
    forget_error();
  set_error(std::move(error));
  rethrow();
}

void flatten(const Binder &binder, const Bound &bound, PyObject *self, UserValues &values,
             bool alike, Signature &signature, Flattened &found) {
  Flattener walk(signature.nodes, signature.atoms, found.tensors, Purpose::argument, &values);
  walk.alike = alike;
  std::size_t place = 0;
  for (const Parameter &p : binder.parameters()) {
    const std::size_t first = signature.nodes.size();
    try {
      parameter(walk, p, bound, self, place);
    } catch (...) {
      rethrow_about(fmt::format("argument '{}'", utf8(p.name.get())));
    }
    if (p.default_value)
      mark_default(signature.nodes[first], p, bound.values[place - 1]);
  }
  for (PyObject *t : found.tensors) {
    if (THPVariable_Unpack(t).is_nested())
      raise(errors().trace, "a nested tensor is passed. It has no sizes that a graph could be "
                            "traced for: pad it, and pass the lengths, too.");
    signature.slots.push_back(
        TensorMeta::of(THPVariable_Unpack(t), Py_TYPE(t), Py_TYPE(t)->tp_name));
  }
  for (std::size_t slot = 0; slot < walk.specs.size(); ++slot)
    for (std::size_t d = 0; walk.specs[slot] && d < signature.slots[slot].sizes.size(); ++d)
      if (!walk.specs[slot]->shape || (*walk.specs[slot]->shape)[d] == kAnySize)
        signature.slots[slot].make_dynamic(d);
  found.roots = std::move(walk.roots);
  found.root_nodes = std::move(walk.root_nodes);
  found.kept = std::move(walk.kept);
}

FlatValue flatten(PyObject *value, Purpose purpose, UserValues *values, ResultObjects *objects) {
  FlatValue result;
  Flattener walk(result.nodes, result.atoms, result.tensors, purpose, values, objects);
  walk.value(value);
  result.objects = std::move(walk.objects);
  result.kept = std::move(walk.kept);
  return result;
}

} // namespace tracehost::python
