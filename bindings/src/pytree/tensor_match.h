#pragma once

#include "signature/tensor_meta.h"

#include <c10/core/TensorImpl.h>

namespace tracehost::python {

/// Hot, and in line: each input and each capture of a Function is compared so at each call.
/// Strides are compared where the body read them: signature/tensor_fit.h.
[[gnu::always_inline]] inline bool fits(const TensorMeta &meta, const c10::TensorImpl &t) {
  if (t.key_set() != meta.keys || t.dtype() != at::scalarTypeToTypeMeta(meta.dtype))
    return false;
  const bool requires_grad = t.autograd_meta() && t.requires_grad();
  if (requires_grad != meta.requires_grad || t.device() != meta.device)
    return false;
  const c10::IntArrayRef sizes = t.sizes();
  const std::size_t rank = meta.sizes.size();
  if (sizes.size() != rank)
    return false;
  for (std::size_t d = 0; d < rank; ++d)
    if (sizes[d] != meta.sizes[d] && meta.sizes[d] != kAnySize)
      return false;
  return true;
}

} // namespace tracehost::python
