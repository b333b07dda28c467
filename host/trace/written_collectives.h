#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tracehost::trace {

/// Collectives of torch.distributed that write into their arguments.
///
/// Problem: `dist.all_reduce(t)` ends in `c10d::allreduce_`, which takes a process group, an object
/// that no graph can hold. Its schema does not say what it writes. Answer: while a body is traced,
/// the functional collective runs in its place (`_c10d_functional::all_reduce_`), which names the
/// group, and its result is written where eager writes it. The trace and each run communicate
/// alike, in the order of the body. As in eager, no gradient passes. A run waits at once; the Work
/// that `async_op=True` returns at the trace is done.
///
/// False: there is none for this op, or not with these arguments; nothing has run.
bool run_functional(const c10::OperatorHandle &op, torch::jit::Stack &stack);

} // namespace tracehost::trace
