#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>
#include <string>

/// Walks over all nodes of a graph, and new nodes in one.

namespace tracehost {

/// Calls `f` with each node of the block, after the nodes of the blocks in it. `f` may destroy its
/// node, and insert others.
template <class Block, class F> void each_node(Block *block, const F &f) {
  for (auto it = block->nodes().begin(); it != block->nodes().end();) {
    auto *node = *it++;
    for (auto *inner : node->blocks())
      each_node(inner, f);
    f(node);
  }
}

template <class F> bool any_node(const torch::jit::Block *block, const F &test);
/// Whether `test` is true of the node or of one in its blocks.
template <class F> bool any_node(const torch::jit::Node *node, const F &test) {
  if (test(*node))
    return true;
  for (const torch::jit::Block *block : node->blocks())
    if (any_node(block, test))
      return true;
  return false;
}
template <class F> bool any_node(const torch::jit::Block *block, const F &test) {
  return std::any_of(block->nodes().begin(), block->nodes().end(),
                     [&](const torch::jit::Node *node) { return any_node(node, test); });
}

/// A new node of that op at the graph's insert point.
inline torch::jit::Node *insert_op(torch::jit::Graph &graph, const std::string &op,
                                   c10::ArrayRef<torch::jit::Value *> inputs, std::size_t outputs) {
  return graph.insertNode(graph.create(c10::Symbol::fromQualString(op), inputs, outputs));
}

} // namespace tracehost
