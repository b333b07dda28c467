#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace tracehost {

/// Merges ops that compute the same of the same: sixteen `x @ w` of an unrolled loop become one.
///
/// Problem: libtorch's own pass asks an alias analysis, which takes longer than the trace, and
/// merges across `no_grad`. Answer: one walk in order, with a table of what has been computed.
///
///     %3 = aten::mm(%x, %w)      table: mm(x, w) -> %3
///     %4 = aten::add(%3, %h)
///     %5 = aten::mm(%x, %w)      known: %5 becomes %3
///
/// The table is emptied where a value may become another one: at an op that writes, at a switch of
/// modes, at a call of Python, at a block. Two results become one tensor only where the caller
/// cannot observe this. So no op writes to them or to a view of them, and neither they nor a view
/// are returned. Random ops and those that behave differently in training stay, and so does a graph
/// that begins gradients or switches them. Takes time in proportion to the number of nodes.
/// Requires: no input requires gradients, which would be summed in another order.
void merge_equal(torch::jit::Block &block);

} // namespace tracehost
