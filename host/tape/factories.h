#pragma once

#include "tape/temporary_nodes.h"

#include <torch/csrc/jit/ir/ir.h>

/// Ops that make a tensor from no other one: zeros(), arange(), rand().
///
/// Problem: zeros() is empty() and a write. Python's binding calls it below autograd, which then
/// counts no write, and `_version` is 0. A graph calls the op above autograd: the version would
/// be 1. Answer: what such an op gives begins with version 0.

namespace tracehost::tape {

bool is_factory(const torch::jit::Node &node);

/// What a factory's node leaves on the stack has not been written to.
void begin_version(const torch::jit::Stack &stack);

/// The ops that do so behind each factory, in the graph for a scope: while its bytecode is made.
/// Where nothing outside of the graph sees the tensor there is none.
class FactoryVersions {
public:
  explicit FactoryVersions(torch::jit::Graph &graph);

private:
  void insert(torch::jit::Block &block);

  TemporaryNodes nodes_;
};

} // namespace tracehost::tape
