#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <functional>
#include <string_view>

/// Ops as functions that write to a tensor that is there: eager's own choice of implementation
/// (`at::cpu::NAME_outf`), without the dispatcher. Inputs and result are fixed tensors, whose
/// memory is bound at each call.

namespace tracehost::tape {

/// Whether there may be one for the op.
bool has_out_kernel(std::string_view op);

/// Computes the op again, on the memory that its tensors have now.
struct OutKernel : std::function<void()> {
  using std::function<void()>::function;
  bool dispatches = true; ///< ATen's code may call ops, and warn
};

/// Empty: there is none for the op with such arguments. `op`: name and overload. `result`: of the
/// sizes, strides and dtype that the op gives.
OutKernel bind_out_kernel(std::string_view op, c10::ArrayRef<c10::IValue> arguments,
                          const at::Tensor &result);

} // namespace tracehost::tape
