#pragma once

#include "signature/signature.h"

#include <ATen/core/Tensor.h>

#include <algorithm>

/// Whether a graph that was made for one tensor is right for another.
///
/// `fits` serves where nothing can be traced instead: ConcreteFunctions and archives. More may
/// differ than in a Function's own cache (pytree/tensor_match.h): ops find out by themselves
/// whether gradients are recorded. `conditions_hold` and `reads_hold` serve each hot call of a
/// Function, too.

namespace tracehost {

/// What of a tensor's keys decides which kernels run: all but what gradients and Python need.
inline c10::DispatchKeySet kernel_keys(c10::DispatchKeySet keys) {
  return keys - c10::autograd_dispatch_keyset_with_ADInplaceOrView -
         c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
}
inline bool same_kernels(c10::DispatchKeySet a, c10::DispatchKeySet b) {
  return a == b || kernel_keys(a) == kernel_keys(b);
}

/// Hot. Dtype, sizes, device and kernels are those of `meta`.
inline bool fits(const TensorMeta &meta, const at::Tensor &t) {
  const c10::TensorImpl &impl = *t.unsafeGetTensorImpl();
  return impl.dtype() == at::scalarTypeToTypeMeta(meta.dtype) &&
         (meta.dynamic ? meta.takes(impl.sizes()) : impl.sizes() == c10::IntArrayRef(meta.sizes)) &&
         impl.device() == meta.device && same_kernels(impl.key_set(), meta.keys);
}

/// Where the body read strides: they are as at the trace, or contiguous for sizes that vary.
inline bool same_strides(const Signature &signature, const TensorMeta &meta, const at::Tensor &t) {
  return !signature.reads_strides || t.layout() != at::kStrided ||
         t.strides() == c10::IntArrayRef(meta.strides) ||
         (meta.dynamic && meta.contiguous && t.is_contiguous());
}

/// Where the body asked whether it is a leaf of autograd: it is so, or not, as at the trace.
inline bool same_leaf(const Signature &signature, const TensorMeta &meta, const at::Tensor &t) {
  return !signature.reads_leaf || t.is_leaf() == meta.is_leaf;
}

/// The sizes of a graph's inputs. `input`: the tensor at an index, of the slots and then the
/// captures. A tensor of fewer dimensions than the trace's has no such size: no condition holds.
template <class Input> class InputSizes final : public SizeSource {
public:
  explicit InputSizes(const Input &input) : input_(input) {}
  std::int64_t size(std::int32_t input, std::int32_t dimension) const override {
    const auto *t = input_(static_cast<std::uint32_t>(input)).unsafeGetTensorImpl();
    return dimension < t->dim() ? t->size(dimension) : kAnySize;
  }

private:
  const Input &input_;
};

/// Whether the graph serves inputs of these sizes.
template <class Input> bool conditions_hold(const Signature &signature, const Input &input) {
  const InputSizes sizes(input);
  return std::all_of(signature.conditions.begin(), signature.conditions.end(),
                     [&](const SizeCondition &condition) { return holds(condition, sizes); });
}

/// Whether what the body read of an input's strides and history is so still.
inline bool same_reads(const Signature &signature, const TensorMeta &meta, const at::Tensor &t) {
  return same_strides(signature, meta, t) && same_leaf(signature, meta, t);
}

/// Whether what the body read of its inputs' strides, history and gradients is so still.
/// `inputs`: how many have strides to compare, of the slots and then the captures.
template <class Input>
bool reads_hold(const Signature &signature, std::size_t inputs, const Input &input) {
  const std::size_t slots = signature.slots.size();
  if (signature.reads_strides || signature.reads_leaf) [[unlikely]]
    for (std::uint32_t i = 0; i < inputs; ++i)
      if (!same_reads(signature,
                      i < slots ? signature.slots[i] : signature.captures[i - slots].meta,
                      input(i)))
        return false;
  for (const GradRead &read : signature.grads)
    if (grad_state(input(read.input)) != read.state)
      return false;
  return true;
}

} // namespace tracehost
