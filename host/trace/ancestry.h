#pragma once

#include "trace/block.h"

#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

/// What of a graph its results are computed from.

namespace tracehost::trace {

/// The values that `results` are, or are computed from by way of op results: those that no pass
/// removes as dead. Not among them is what only an in-place op uses whose own result is unused.
std::unordered_set<const torch::jit::Value *>
ancestry(c10::ArrayRef<const torch::jit::Value *> results);

/// Whether `tensor` may share memory with an input of the graph or a constant, as far as schemas
/// and blocks say. True of what a loop carries while it is recorded.
bool may_share_memory_with_inputs(const torch::jit::Value *tensor);

/// Whether the strides of `tensor` may follow from those of an input, as far as ops are known. They
/// do not follow after an op whose result is contiguous for any arguments (mm, embedding).
bool may_lie_as_inputs(const torch::jit::Value *tensor);

/// Whether `tensor` may have its strides, or what autograd records of it, from one of `others`.
/// Strides do not follow after an op whose result is contiguous for any arguments.
bool may_have_from(Fact fact, const torch::jit::Value *tensor,
                   const std::unordered_set<const torch::jit::Value *> &others);

/// Whether two values may be one tensor, by the way that a call takes through blocks.
bool may_be_one(const torch::jit::Value *a, const torch::jit::Value *b);
/// Whether `value` is what a block has made or was given, by the way that a call takes through it.
bool is_of_block(const torch::jit::Value *value);

/// Whether the results of `node` are contiguous for any strides and sizes of its arguments.
bool is_always_contiguous(const torch::jit::Node &node);

/// Whether each call computes the same `scalar`: of no input, and nothing is drawn. Writes to
/// memory are not looked for.
bool is_of_constants(const torch::jit::Value *scalar);

} // namespace tracehost::trace
