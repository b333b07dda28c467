#pragma once

#include "signature/signature.h"

#include <ATen/core/Tensor.h>

/// Whether a graph that was made for one tensor is right for another, where nothing can be traced
/// instead: in ConcreteFunctions and archives. More may differ than in a Function's own cache: ops
/// find out by themselves whether gradients are recorded.

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

} // namespace tracehost
