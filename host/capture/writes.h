#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace tracehost::capture {

/// Whether ops of the graph may write to the memory of each input: to the input, to a view of it,
/// or through a list. The versions of tensors do not say so: torch's ops on lists do not count.
std::vector<bool> written_inputs(const torch::jit::Graph &graph);

} // namespace tracehost::capture
