#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>

#include <string_view>

/// The table of kernels: which of ATen's own CPU kernels computes an op, without the dispatcher.
///
/// A kernel has eager's bits on all inputs (tests/cpp/tape: full-range data), for tensors of one of
/// the dtypes float32 and float64, all operands of one dtype. An op that is not here is called
/// through the dispatcher.

namespace tracehost::tape {

struct Kernel {
  std::string_view op;  ///< `aten::mul.Tensor`
  std::size_t operands; ///< the op's first arguments: tensors, or a number as the second
  /// Runs on an iterator over result and operands. `alpha`: the op's next argument, or 1.
  void (*run)(at::TensorIteratorBase &iterator, const c10::Scalar &alpha);
  std::size_t first = 0; ///< argument that is an operand
};

/// The dtypes of the tables: float32 and float64.
inline bool has_kernels(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Float || dtype == c10::ScalarType::Double;
}

/// Whether an op has a kernel, or writes to memory that is there (out_kernels.h).
bool has_kernel(std::string_view op);

/// Null: there is none. `op`: name and overload; `aten::mul_.Tensor` has the kernel of
/// `aten::mul.Tensor`, over an iterator whose result is its first operand.
const Kernel *find_kernel(std::string_view op);

} // namespace tracehost::tape
