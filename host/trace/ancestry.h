#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

/// What of a graph its results are computed from.

namespace tracehost::trace {

/// The values that `results` are, or are computed from by way of op results: those that no pass
/// removes as dead. Not among them is what only an in-place op uses whose own result is unused.
std::unordered_set<const torch::jit::Value *>
ancestry(c10::ArrayRef<const torch::jit::Value *> results);

} // namespace tracehost::trace
