#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <memory>

namespace tracehost {

/// The Scalar that a bool is, at the graph's insert point: a schema of TorchScript's takes no bool.
torch::jit::Value *insert_truth(torch::jit::Graph &graph, torch::jit::Value *truth);

/// The tracer records a bool that an op takes as a Scalar (`full((), True)`) as a bool constant,
/// which no schema of TorchScript's takes: it is wrapped as a number. Not 1: `full((), 1)` is of
/// another dtype. It is one of them, or the first few (`arange(False, True)`). Passes that ask an
/// op for its schema come after this.
void convert_truths(torch::jit::Block *block);

/// What a traced graph goes through before it runs; keeps the order of ops with effects.
/// `merges`: as of Program.
void prepare(const std::shared_ptr<torch::jit::Graph> &graph, bool merges);

} // namespace tracehost
