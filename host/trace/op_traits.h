#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tracehost::trace {

/// What a trace has to know of an op, derived from its schema once.
struct OpTraits {
  bool reads_value = false;  ///< returns a Python number or bool computed from a tensor's content
  bool is_item = false;      ///< t.item(), by either of its ops
  bool random = false;       ///< draws from a generator
  bool raises = false;       ///< some values make it raise
  bool statistics = false;   ///< batch_norm and its kin: may write some, which no schema says
  bool literal = false;      ///< an op that torch.tensor() and its kin end with
  bool takes_number = false; ///< `x[i, j] = 1.0`: a 0-dim tensor that torch made of the number
  bool splits = false;       ///< returns as many tensors as its input has sizes
  bool drops_dimensions = false; ///< those of size 1: its result may have none at one call alone
  bool inexact = false;          ///< the result's sizes depend on values: inexact_with() decides
  bool writes = false;           ///< into some of its arguments: is_written() says which
  bool aside = false;            ///< no part of a graph: marks a region for the profiler
  bool reshapes = false;         ///< changes what its first argument is: `t_`, `detach_`, `set_`
  bool unrecorded =
      false; ///< changes a tensor behind the tracer's back (set_data, retain_grad ...)
  bool collective = false; ///< of torch.distributed, and not a functional one
  bool functional = false; ///< a functional collective
  bool wraps = false; ///< makes of its result a tensor that waits where it is used: not in a graph
  bool own_node = false; ///< the tracer makes no node of it, or another op's: own_nodes.cpp
};

/// `t.view(torch.int32)`.
bool is_view_of_dtype(const c10::FunctionSchema &schema);

/// For an op whose traits say `inexact`: whether it is with these arguments.
bool inexact_with(const c10::OperatorHandle &op, const torch::jit::Stack &stack);

/// The traits of `op`; remembered for the thread. The reference is good until the next call.
const OpTraits &traits(const c10::OperatorHandle &op);

} // namespace tracehost::trace
