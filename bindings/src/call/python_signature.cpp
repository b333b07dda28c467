#include "call/python_trace.h"

#include "base/errors.h"
#include "base/object.h"
#include "call/plain_calls.h"
#include "signature/tensor_fit.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

/// A call's Signature, and what a Specialization's guards would find now.

namespace tracehost::python {

void PythonTrace::use(FakeTensors &fake_tensors) {
  request_ = &fake_tensors;
  call_.convert([&](std::size_t, PyObject *value) { return fake_tensors.replace(value); });
  if (fake_tensors.open())
    call_.may_specialize = trace::MaySpecialize::none;
}

Signature PythonTrace::signature() {
  std::vector<at::Tensor> slots;
  return flatten(slots);
}

Signature PythonTrace::flatten(std::vector<at::Tensor> &slots) {
  if (PyErr_Occurred()) // a user's `__eq__` was interrupted while a Specialization was verified
    rethrow();
  flattened_ = {};
  Signature signature = flatten_as(values_, flattened_);
  if (is_miss_)
    check_what_is_passed(flattened_.tensors);
  nodes_ = signature.nodes;
  slots.clear();
  for (PyObject *t : flattened_.tensors)
    slots.push_back(THPVariable_Unpack(t));
  return signature;
}

Signature PythonTrace::flatten_as(UserValues &values, Flattened &found) {
  Signature signature;
  signature.parameters = function_.parameters;
  signature.context = call_.context;
  const Identity &identity = function_.core->counters()->identity;
  python::flatten(function_.binder, bound_, function_.bound_to(), values,
                  identity.reduces && !identity.declared, signature, found);
  if (request_)
    request_->describe(signature, found.tensors);
  if (function_.declaration)
    function_.declaration->make_dynamic(signature);
  return signature;
}

void PythonTrace::current_guards(const Specialization &specialization, Signature &signature) {
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  if (state.roots != flattened_.roots.size())
    return;
  const Flattened cast = cast_to(specialization.signature, signature);
  const auto &slots = cast.roots.empty() ? flattened_.tensors : cast.tensors;
  signature.guarded = state.guards->current(flattened_.roots.data(), signature.atoms);
  const auto tensors = state.guards->current_captures(flattened_.roots.data());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CaptureSpec spec = specialization.signature.captures[i];
    if (tensors[i]) {
      spec.meta = meta_of(tensors[i]);
      const auto slot = std::find(slots.begin(), slots.end(), tensors[i]);
      spec.same_as_slot =
          slot == slots.end() ? -1 : static_cast<std::int32_t>(slot - slots.begin());
    }
    signature.captures.push_back(std::move(spec));
  }
  // Null where the call has no such input.
  const std::size_t count = specialization.signature.slots.size();
  const auto input = [&](std::uint32_t index, const std::vector<PyObject *> &given) {
    return given.size() != count ? nullptr : index < count ? given[index] : tensors[index - count];
  };
  for (const GradRead &read : specialization.signature.grads)
    if (PyObject *t = input(read.input, flattened_.tensors))
      signature.grads.push_back(current_grad(read, THPVariable_Unpack(t)));
}

std::vector<at::Tensor> PythonTrace::captures(const Specialization &specialization) {
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  std::vector<at::Tensor> result;
  if (state.roots != flattened_.roots.size())
    return result;
  for (PyObject *object : state.guards->current_captures(flattened_.roots.data()))
    result.push_back(object ? THPVariable_Unpack(object) : at::Tensor());
  return result;
}

GradRead PythonTrace::current_grad(const GradRead &read, const at::Tensor &t) const {
  for (const auto &[tensor, state] : grads_read_)
    if (tensor.is_same(t))
      return {read.input, state};
  return {read.input, grad_state(t)};
}

TraceSession::Surroundings PythonTrace::surroundings(const Specialization &specialization) {
  const Signature &signature = specialization.signature;
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  const auto &given = flattened_;
  const bool simple = state.roots == given.roots.size() && signature.grads.empty();
  const auto of_user = [](const Node &node) { return node.kind == Kind::custom; };
  if (!simple || std::any_of(signature.nodes.begin(), signature.nodes.end(), of_user))
    return Surroundings::unknown;
  if (!state.guards->verify(given.roots.data()))
    return Surroundings::changed;
  const GraphInputs inputs{given.tensors, state.guards->captures()};
  bool same = call_.captures_match(specialization, state, given.tensors) &&
              given.tensors.size() == signature.slots.size() && conditions_hold(signature, inputs);
  for (std::size_t i = 0; same && i < signature.captures.size(); ++i)
    same =
        same_reads(signature, signature.captures[i].meta, THPVariable_Unpack(inputs.captures[i]));
  return same ? Surroundings::same : Surroundings::changed;
}

std::vector<std::string> PythonTrace::spec_names() const {
  return request_ ? request_->names(flattened_.tensors) : std::vector<std::string>();
}

TensorMeta meta_of(PyObject *tensor) {
  return TensorMeta::of(THPVariable_Unpack(tensor), Py_TYPE(tensor), Py_TYPE(tensor)->tp_name);
}

PyObject *object_of(const at::Tensor &t) {
  return t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
}

} // namespace tracehost::python
