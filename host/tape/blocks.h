#pragma once

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <memory>
#include <vector>

/// Branches and loops of a graph as ops of a tape.
///
/// Problem. A tape is a list of steps; which of them run depends on values, and how often. Answer:
/// each block is a graph of its own, with tapes of its own, and the `if` or loop is one op that
/// runs them. What a block reads from around it are inputs of the op:
///
///     while n < limit:               n, y = tracehost::blocks(cond, y, x)
///         y = y * x                      block: (y, x) -> y * x, n + 1: one tape, run n times
///
/// A result has memory of its own. A block may give what it was given, as `y = x` in one branch:
/// the op gives a copy. A caller could see that the result is a copy if it is an output of
/// the graph, or if it had gaps. So it could if the graph writes to the copy or to what was given.
/// Then the graph has no tape, or the run ends early.
///
/// A block may write to tensors from around it: `total.add_(x)`. How often is known at the end of
/// each run only, so the step counts versions as they move (CallStep::counted).

namespace tracehost::tape {

namespace jit = torch::jit;

/// A copy of the graph whose branches and loops are ops. Throws NoTape: a block has an op that no
/// tape has, or writes to a tensor of a block around it. The copy's nodes refer to places in
/// `graph`.
std::shared_ptr<jit::Graph> outline(const jit::Graph &graph, void (*interruptible)());

/// Whether the node is an `if` or a loop.
bool is_outlined(const jit::Node &node);
bool outlined_draws(const jit::Node &node);
/// The inputs of an outlined node that one of its blocks may write to.
std::vector<std::size_t> outlined_writes(const jit::Node &node);
/// What runs a node: of an outlined node as well.
jit::Operation operation_of(const jit::Node &node);
/// Whether an outlined node may give the output at `index` as a view: of another tensor that its
/// block makes. Below autograd no tensor says so.
bool may_be_view(const jit::Node &node, std::size_t index);
} // namespace tracehost::tape
