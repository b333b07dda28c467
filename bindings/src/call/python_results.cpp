#include "base/checked.h"
#include "base/forget_error.h"
#include "call/python_trace.h"
#include "numbers/traced_number.h"
#include "pytree/results.h"
#include "trace/block.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>

/// What the body returned and stored, as trees over outputs of the graph. Later calls make the
/// like; the call that traces hands out what eager would have.

namespace tracehost::python {

/// Describes what the body returned and stored, as trees over outputs of the graph.
void PythonTrace::describe(BodyResult &result) {
  MadeObjects made;
  std::vector<Owned> tensors;
  result.outputs = describe_result(result_.get(), function_.name, tensors, returnable(), made);
  for (const Owned &t : tensors) {
    if (!can_be_wrapped(t.get()))
      trace::reject(
          trace::Rejection::trace,
          fmt::format("{} returned a new {}, which a later call would return as a plain Tensor. "
                      "Return result.as_subclass(torch.Tensor), and wrap it outside.",
                      function_.name, Py_TYPE(t.get())->tp_name));
    if (THPVariable_Unpack(t.get()).is_nested())
      trace::reject(trace::Rejection::trace,
                    fmt::format("{} returned a nested tensor, which has no sizes that a graph "
                                "could be traced for. Return it padded "
                                "(torch.nested.to_padded_tensor), and the lengths, too.",
                                function_.name));
    result.tensors.push_back(THPVariable_Unpack(t.get()));
    outputs_.push_back(meta_of(t.get()));
  }
  for (Rebound &rebound : recorder_->rebound())
    repeat(rebound, made, result.tensors);
  repeat_changes(made, result);
  drop_held(made, result);
  link(trees(result));
}

/// By number: the result, then what is stored.
std::vector<OutputSpec *> PythonTrace::trees(BodyResult &result) {
  std::vector<OutputSpec *> all{&result.outputs};
  for (OutputSpec &spec : stored_)
    all.push_back(&spec);
  return all;
}

/// What something unseen refers to as well, later calls can't make again.
void PythonTrace::drop_held(const MadeObjects &made, BodyResult &result) {
  for (const auto &[object, one] : made.found) {
    if (!is_held_elsewhere(object, one))
      continue;
    if (one.tree == 0)
      reject_held(object, function_.name);
    const std::vector<bool> has_it = trees_with(trees(result), one);
    for (Rebound &rebound : recorder_->rebound_so_far())
      rebound.repeated &= !has_it[rebound.tree];
    for (std::size_t i = 0; uses_ && i < uses_->changes.size(); ++i)
      if (has_it[uses_->changes[i].values])
        reject_change(
            std::min(uses_->changes[i].path.argument, function_.parameters->names.size() - 1));
  }
}

/// A number that the graph computes is one for the caller, and in what is stored. What a branch
/// left as it was is the tensor that went into the branch.
void PythonTrace::return_as_eager(BodyResult &result) {
  if (request_) // nobody gets its result, and fake tensors have no data
    return;
  std::vector<bool> joined;
  torch::jit::Stack outputs;
  for (const at::Tensor &t : result.tensors) {
    at::Tensor original = trace::in_eager(t);
    joined.push_back(!original.is_same(t));
    outputs.emplace_back(std::move(original));
  }
  const auto all = trees(result);
  std::vector<bool> differ;
  for (const OutputSpec *tree : all)
    differ.push_back(returns_numbers(*tree) ||
                     std::any_of(tree->nodes.begin(), tree->nodes.end(), [&](const Node &node) {
                       return node.kind == Kind::tensor && joined[node.payload.slot];
                     }));
  if (std::find(differ.begin(), differ.end(), true) == differ.end())
    return;
  differ = linked(all, std::move(differ));
  const trace::PausedWithData paused;
  const auto given = given_at_trace();
  const auto containers = containers_at_trace();
  std::vector<MadeOnce> made;
  RunValues values{result.outputs, stored_, outputs, given, containers, made};
  for (const Rebound &rebound : recorder_->rebound_so_far())
    if (rebound.repeated && rebound.tree && differ[rebound.tree])
      recorder_->replace(rebound, checked(build_stored(values, rebound.tree)).get());
  change_as_eager(values, differ);
  if (differ[0])
    result_ = checked(build_result(values));
}

/// The same for an unsupported body, whose result may be anything.
void PythonTrace::return_as_eager() {
  std::vector<Owned> tensors;
  BodyResult result;
  try {
    result.outputs = describe_result(result_.get(), function_.name, tensors, returnable());
  } catch (const python_error &) {
    return; // no graph would have returned it
  }
  for (const Owned &t : tensors)
    result.tensors.push_back(THPVariable_Unpack(t.get()));
  return_as_eager(result);
}

/// Whether the body made `tensor` and set attributes on it. A later call makes another tensor.
bool PythonTrace::has_own_attributes(PyObject *tensor) const {
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  if (!attributes || !*attributes || PyDict_GET_SIZE(*attributes) == 0 || is_number(tensor))
    return false;
  const auto &given = flattened_.tensors;
  return std::find(given.begin(), given.end(), tensor) == given.end() &&
         !Allocations::made_aside(tensor) && recorder_->paths().path_of(tensor).empty();
}

/// Whether a later call hands out such a tensor: it wraps a new one as torch.Tensor, and one that
/// exists keeps its object.
bool PythonTrace::can_be_wrapped(PyObject *tensor) const {
  return reinterpret_cast<PyObject *>(Py_TYPE(tensor)) == THPVariableClass ||
         is_traced_number(tensor) ||
         std::find(flattened_.tensors.begin(), flattened_.tensors.end(), tensor) !=
             flattened_.tensors.end() ||
         Allocations::made_aside(tensor) || !recorder_->paths().path_of(tensor).empty();
}

/// The same, where a later call can set them again. Else the trace serves its own call.
bool PythonTrace::has_attributes_of_a_call(PyObject *tensor) const {
  if (!has_own_attributes(tensor))
    return false;
  std::vector<Owned> tensors;
  ReachedObjects inner{reached_.as, {}, {}};
  try {
    const Owned attributes(Py_NewRef(*_PyObject_GetDictPtr(tensor)));
    MadeObjects made;
    describe_result(attributes.get(), function_.name, tensors,
                    {flattened_.roots, containers_before_, &inner, {}}, made);
    for (const Owned &t : tensors)
      if (t.get() == tensor || !can_be_wrapped(t.get()) || has_own_attributes(t.get()))
        raise(PyExc_TypeError, "an attribute that no call makes again");
  } catch (const python_error &) {
    forget_error();
    recorder_->paths().serves_once(
        "makes a tensor with an attribute that a later call could not make again");
    return false;
  }
  return true;
}

/// Makes the tensors of `value` outputs of the graph. The number of its tree; 0 where no later call
/// can make the like.
std::uint32_t PythonTrace::as_outputs(PyObject *value, const std::string &name, MadeObjects &made,
                                      std::vector<at::Tensor> &outputs) {
  std::vector<Owned> tensors;
  OutputSpec spec;
  const std::size_t objects = reached_.objects.size(), containers = reached_.containers.size();
  made.begin(static_cast<std::uint32_t>(stored_.size() + 1));
  const auto failed = [&] {
    reached_.objects.resize(objects);
    reached_.containers.resize(containers);
    return std::uint32_t{0};
  };
  try {
    spec = describe_result(value, name, tensors, known_objects(), made);
  } catch (const python_error &) { // it holds an object that only the body can make
    forget_error();
    return failed();
  }
  for (const Owned &t : tensors)
    if (!can_be_wrapped(t.get())) {
      made.undo();
      return failed();
    }
  for (Node &node : spec.nodes)
    if (node.kind == Kind::tensor)
      node.payload.slot += static_cast<std::uint32_t>(outputs.size());
  for (const Owned &t : tensors)
    outputs.push_back(THPVariable_Unpack(t.get()));
  stored_.push_back(std::move(spec));
  return static_cast<std::uint32_t>(stored_.size());
}

/// Makes what a slot was rebound to outputs of the graph, if later calls can store the like.
void PythonTrace::repeat(Rebound &rebound, MadeObjects &made, std::vector<at::Tensor> &outputs) {
  rebound.repeated = true;
  if (!rebound.value)
    return;
  rebound.tree = as_outputs(rebound.value, rebound.path, made, outputs);
  rebound.repeated = rebound.tree != 0;
  made.add_references(rebound.value, 1); // of the slot, and of what notes the change
  if (rebound.rewrites)
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rebound.value); ++i)
      made.add_references(PyTuple_GET_ITEM(rebound.value, i), 2);
}

} // namespace tracehost::python
