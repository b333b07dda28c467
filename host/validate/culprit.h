#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>

namespace tracehost::validate {

/// The op that made an output of a Program's graph: `aten::mul at net.py:12`; empty: none did.
std::string maker(const torch::jit::Value *output);
/// The last op that wrote an input of it, or a view of that.
std::string last_writer(const torch::jit::Value *input);

/// An op of the graph whose effects can't be repeated beside a call: `tracehost::py_function`;
/// empty: it has none.
std::string unrepeatable(const torch::jit::Block &block);
/// Whether the graph runs a backward pass, or reads or changes a `.grad` or `requires_grad`.
bool uses_gradients(const torch::jit::Block &block);
/// The last backward pass of the graph, as maker() names it; empty: the graph has none.
std::string last_backward(const torch::jit::Graph &graph);
/// An op of the graph whose result is memory as it happens to be; null: it has none.
const torch::jit::Node *uninitialised(const torch::jit::Block &block);
/// An op of the graph whose last bits may differ from run to run on a CUDA device, as it adds in
/// any order; null: it has none. A backward pass may have any of these ops.
const torch::jit::Node *differs_each_time(const torch::jit::Block &block);

} // namespace tracehost::validate
