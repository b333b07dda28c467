#include "call/python_call.h"
#include "pytree/tensor_match.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

/// The hot part of PythonCall: verify one Specialization and fill its stack.

namespace tracehost::python {

bool PythonCall::verify(Specialization &specialization, torch::jit::Stack &stack) {
  const Signature &signature = specialization.signature;
  if (!(signature.context == context) || !matches(signature, function_.binder, bound_, found_))
    return false;
  auto &state = static_cast<PythonState &>(*specialization.front_end);
  if (state.runs_code) [[unlikely]]
    found_.protect();
  if (!state.environment->verify(found_.roots.data()))
    return false;
  if (!signature.captures.empty() && !captures_match(specialization, state, found_.tensors))
    return false;
  if (!signature.conditions.empty() && !conditions_hold(signature, state, found_.tensors))
      [[unlikely]]
    return false;
  if ((signature.reads_strides || signature.reads_leaf) && !reads_match(signature, state))
      [[unlikely]]
    return false;
  if (!state.absent.empty() && !are_absent(state.absent)) [[unlikely]]
    return false;
  if (!signature.values.empty() && !values_hold(signature, state)) [[unlikely]]
    return false;
  if (!signature.grads.empty() && !grads_hold(signature, state)) [[unlikely]]
    return false;
  for (PyObject *t : found_.tensors)
    stack.emplace_back(THPVariable_Unpack(t));
  const auto captured = state.environment->captures();
  for (std::size_t i = 0; i < state.captures; ++i)
    stack.emplace_back(THPVariable_Unpack(captured[i]));
  return true;
}

/// hasattr(x, "jax"): of most tensors there is no dict to look into.
bool PythonCall::are_absent(const std::vector<PyObject *> &names) const {
  for (PyObject *t : found_.tensors) {
    PyObject **attributes = _PyObject_GetDictPtr(t);
    if (!attributes || !*attributes || !PyDict_GET_SIZE(*attributes))
      continue;
    for (PyObject *name : names)
      if (PyDict_Contains(*attributes, name) != 0)
        return false;
  }
  return true;
}

bool PythonCall::conditions_hold(const Signature &signature, const PythonState &state,
                                 std::span<PyObject *const> slots) {
  struct Sizes final : SizeSource {
    Sizes(std::span<PyObject *const> slots, std::span<PyObject *const> captures)
        : slots(slots), captures(captures) {}
    std::int64_t size(std::int32_t input, std::int32_t dimension) const override {
      const auto i = static_cast<std::size_t>(input);
      PyObject *tensor = i < slots.size() ? slots[i] : captures[i - slots.size()];
      return THPVariable_Unpack(tensor).unsafeGetTensorImpl()->size(dimension);
    }
    std::span<PyObject *const> slots, captures;
  };
  const Sizes sizes(slots, state.environment->captures());
  for (const SizeCondition &condition : signature.conditions)
    if (!holds(condition, sizes))
      return false;
  return true;
}

bool PythonCall::values_hold(const Signature &signature, const PythonState &state) const {
  const std::size_t slots = found_.tensors.size();
  const auto captured = state.environment->captures();
  for (const ValueGuard &guard : signature.values)
    if (!holds(guard, THPVariable_Unpack(guard.input < slots ? found_.tensors[guard.input]
                                                             : captured[guard.input - slots])))
      return false;
  return true;
}

bool PythonCall::grads_hold(const Signature &signature, const PythonState &state) const {
  const std::size_t slots = found_.tensors.size();
  const auto captured = state.environment->captures();
  for (const GradRead &read : signature.grads)
    if (read.state !=
        grad_state(THPVariable_Unpack(read.input < slots ? found_.tensors[read.input]
                                                         : captured[read.input - slots])))
      return false;
  return true;
}

bool PythonCall::captures_match(const Specialization &specialization, const PythonState &state,
                                std::span<PyObject *const> tensors) {
  const auto &specs = specialization.signature.captures;
  const auto captured = state.environment->captures();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    PyObject *object = captured[i];
    if (Py_TYPE(object) != specs[i].meta.type)
      return false;
    const auto *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
    if (!fits(specs[i].meta, *impl))
      return false;
    // A capture is the slot that it was at the trace, or none.
    for (std::size_t slot = 0; slot < tensors.size(); ++slot) {
      const bool same = THPVariable_Unpack(tensors[slot]).unsafeGetTensorImpl() == impl;
      if (same != (specs[i].same_as_slot == static_cast<std::int32_t>(slot)))
        return false;
    }
  }
  return true;
}

Body::Surroundings PythonCall::surroundings(const Specialization &specialization) {
  const Signature &signature = specialization.signature;
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  const auto &given = miss().flattened;
  const bool simple =
      state.roots == given.roots.size() && signature.values.empty() && signature.grads.empty();
  const auto of_user = [](const Node &node) { return node.kind == Kind::custom; };
  if (!simple || std::any_of(signature.nodes.begin(), signature.nodes.end(), of_user))
    return Surroundings::unknown;
  if (!state.environment->verify(given.roots.data()))
    return Surroundings::changed;
  const bool same = captures_match(specialization, state, given.tensors) &&
                    given.tensors.size() == signature.slots.size() &&
                    conditions_hold(signature, state, given.tensors) &&
                    captured_reads_match(signature, state);
  return same ? Surroundings::same : Surroundings::changed;
}

namespace {

/// What is compared only where the body read it.
bool has_read(const Signature &signature, PyObject *object, const TensorMeta &meta) {
  const at::Tensor &t = THPVariable_Unpack(object);
  return (!signature.reads_leaf || t.is_leaf() == meta.is_leaf) &&
         (!signature.reads_strides || t.layout() != at::kStrided ||
          t.strides() == c10::IntArrayRef(meta.strides) ||
          (meta.relaxed && meta.contiguous && t.is_contiguous()));
}

} // namespace

bool PythonCall::reads_match(const Signature &signature, const PythonState &state) {
  for (std::size_t i = 0; i < found_.tensors.size(); ++i)
    if (!has_read(signature, found_.tensors[i], signature.slots[i]))
      return false;
  return captured_reads_match(signature, state);
}

bool PythonCall::captured_reads_match(const Signature &signature, const PythonState &state) {
  const auto captured = state.environment->captures();
  for (std::size_t i = 0; i < signature.captures.size(); ++i)
    if (!has_read(signature, captured[i], signature.captures[i].meta))
      return false;
  return true;
}

} // namespace tracehost::python
