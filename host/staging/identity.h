#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::staging {

/// A new tensor object of the same contents and history, so that what leaves a block is another
/// object than what went in. Requires: trace::recording().
at::Tensor new_identity(const at::Tensor &t);

/// The bool of a condition of one element, as a value of the graph. Requires: trace::recording().
torch::jit::Value *truth_of(const at::Tensor &condition);

} // namespace tracehost::staging
