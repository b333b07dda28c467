#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <string_view>

/// What lower() rejects, with name and line.

namespace tracehost::archive {

/// Throws Error: `what` can't be saved, because of `name` at the node's line.
[[noreturn]] void reject(const std::string &what, const torch::jit::Node &node,
                         std::string_view name, std::string_view reason);

/// Whether the node switches autocast.
bool is_autocast(const torch::jit::Node &node);

/// Throws Error for nodes that no op of TorchScript can stand for. `autocast`: the graph was traced
/// under it.
void check(torch::jit::Graph &graph, bool autocast, const std::string &what);

} // namespace tracehost::archive
