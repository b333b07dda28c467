#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <vector>

/// Ops of graphs that run libtorch's autograd engine, and those on the `.grad` of a tensor.
///
/// Problem: what a backward pass does is known only when it runs (hooks, functions of the user's,
/// the leaves that it reaches). Answer: the graph does not have its ops; it has one that runs the
/// engine, as eager does, over the ops that the graph has run.
///
///     tracehost::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[] grad_outputs,
///                     bool retain_graph, bool create_graph, bool allow_unused, bool[] defined)
///         -> Tensor[]                                         undefined where not `defined`
///     tracehost::backward(Tensor[] tensors, Tensor?[] grad_tensors, bool retain_graph,
///                         bool create_graph, Tensor[] inputs) -> ()      inputs empty: all leaves
///     tracehost::read_grad(Tensor t, bool requires_grad) -> Tensor
///     tracehost::expect_no_grad(Tensor t) -> ()               throws if there is one
///     tracehost::set_grad(Tensor t, Tensor? grad) -> ()
///     tracehost::retain_grad(Tensor t) -> ()
///
/// No pass knows what they do: they are never removed, moved, merged or run ahead. Where hooks are
/// Python's, they take the GIL: the graph runs without it.

namespace tracehost {

/// A call of the engine. Undefined tensors among `grads` stand for none.
struct EngineCall {
  std::vector<at::Tensor> roots, grads, inputs;
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;
  bool accumulates = false; ///< into the leaves' `.grad`; else the gradients are the result
};

/// Puts a call of the engine at the graph's insert point: null among `grads` stands for none.
/// `defined`: of the results. Returns the node whose outputs are the results, one for each input
/// where it does not accumulate.
torch::jit::Node *insert_engine_call(torch::jit::Graph &graph, const EngineCall &call,
                                     c10::ArrayRef<torch::jit::Value *> roots,
                                     c10::ArrayRef<torch::jit::Value *> grads,
                                     c10::ArrayRef<torch::jit::Value *> inputs,
                                     const std::vector<bool> &defined);

/// Whether the node runs the engine.
bool runs_engine(const torch::jit::Node &node);
/// Whether the node is one of these ops.
bool is_autograd_op(const torch::jit::Node &node);

} // namespace tracehost
