#pragma once

#include "tape/out_kernels.h"

#include <ATen/core/Tensor.h>

/// Products of matrices by the BLAS that eager's mm() and addmm() call, without what stands before:
/// checks, TensorIterators, a copy of the bias by an op.
///
/// Which is transposed for BLAS decides about the bits. So operands are read as addmm_impl_cpu_ of
/// ATen/native/LinearAlgebra.cpp reads them.

namespace tracehost::tape {

/// `out = x @ y`, and `bias` added to each row if it is defined. Empty: BLAS does not take them, or
/// this torch exports none. All are fixed tensors with two dimensions, `bias` with one.
OutKernel bind_product(const at::Tensor &x, const at::Tensor &y, const at::Tensor &bias,
                       const at::Tensor &out);

} // namespace tracehost::tape
