#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tracehost::trace {

/// What the tracing scope has to know of an op, derived from its schema once.
struct OpTraits {
  bool reads_value = false; ///< returns a Python number or bool computed from a tensor's content
  bool random = false;      ///< draws from a generator
  bool literal = false;     ///< an op that torch.tensor() and its kin end with
  bool splits = false;      ///< returns as many tensors as its input has sizes
  bool inexact = false;     ///< the result's sizes depend on values: inexact_with() decides
  bool writes = false;      ///< into some of its arguments: is_written() tells which
  bool unrecorded =
      false; ///< changes a tensor behind the tracer's back (set_data, retain_grad ...)
};

/// For an op whose traits say `inexact`: whether it is with these arguments.
bool inexact_with(const c10::OperatorHandle &op, const torch::jit::Stack &stack);

/// The traits of `op`; remembered for the thread. The reference is good until the next call.
const OpTraits &traits(const c10::OperatorHandle &op);

} // namespace tracehost::trace
