#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <vector>

/// Tensors of the body and the values of the graph that they stand for. Requires for all: a trace
/// is recording.

namespace tracehost::staging {

/// A new tensor object of the same contents and history, so that what leaves a block is another
/// object than what went in.
at::Tensor new_identity(const at::Tensor &t);
/// The tensor that stands for `value`, a result of a block, from now on. `actual`: what it is in
/// this call. `inexact`: its sizes depend on values.
at::Tensor result_of_block(torch::jit::Value *value, const at::Tensor &actual, bool inexact);

/// Whether they differ, or may at other sizes: of a dimension with one element no stride is known.
bool may_lie_otherwise(const at::Tensor &a, const at::Tensor &b);

/// The bool of a condition of one element, as a value of the graph.
torch::jit::Value *truth_of(const at::Tensor &condition);

/// The int that a traced tensor was made of, or is in the graph.
torch::jit::Value *int_of(const at::Tensor &number);
/// The 0-dim int64 tensor that stands for `number`, of which `now` is the value, or a fake
/// tensor's.
at::Tensor tensor_of(torch::jit::Value *number, std::int64_t now);

} // namespace tracehost::staging
