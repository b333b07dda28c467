#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace tracehost {

/// The tracer records a bool that an op takes as a Scalar (`full((), True)`) as a bool constant,
/// which no schema of TorchScript's takes. A number would make results int64: it becomes a Scalar
/// that still is a bool. It is one of the inputs, or the first few (`arange(False, True)`). Passes
/// that ask an op for its schema come after this.
void convert_truths(torch::jit::Block *block);

/// What a traced graph goes through before it runs; keeps the order of ops with effects.
void prepare(const std::shared_ptr<torch::jit::Graph> &graph);

} // namespace tracehost
