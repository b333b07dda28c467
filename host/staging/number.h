#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>

/// Ints of the graph, which the body sees as 0-dim int64 tensors. Requires for all: a trace is
/// recording.

namespace tracehost::staging {

/// The int that a traced tensor was made of, or is in the graph.
torch::jit::Value *int_of(const at::Tensor &number);
/// Its value now. Requires: it has data.
std::int64_t value_now(const at::Tensor &number);
/// A tensor that stands for `number`, of which `now` is the value, or a fake tensor's.
at::Tensor tensor_of(torch::jit::Value *number, std::int64_t now);

} // namespace tracehost::staging
