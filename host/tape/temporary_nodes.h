#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace tracehost {

/// Nodes that are in a graph for a scope: while its bytecode is made. The graph that is printed,
/// saved and compared has none of them.
class TemporaryNodes {
public:
  TemporaryNodes() = default;
  ~TemporaryNodes() {
    for (torch::jit::Node *node : nodes_)
      node->destroy();
  }
  TemporaryNodes(const TemporaryNodes &) = delete;
  TemporaryNodes &operator=(const TemporaryNodes &) = delete;

  /// Requires: the node is in the graph, and has no outputs that are used.
  void add(torch::jit::Node *node) { nodes_.push_back(node); }

private:
  std::vector<torch::jit::Node *> nodes_;
};

} // namespace tracehost
