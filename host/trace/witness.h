#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace tracehost::trace {

/// Sees what a body does to tensors, beside what records it. Its own tensor work is neither seen
/// nor recorded if it runs in an Aside (op_hook.h).
class Witness {
public:
  virtual ~Witness() = default;
  /// The body is about to use `input` for the first time; in the order of the graph's inputs.
  virtual void met(const at::Tensor &input) = 0;
  /// An op is about to run: a recorded op, an op inside a recorded op, an op of a staged loop.
  virtual void before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) = 0;
  /// An op that is no part of the graph is about to run, in an init_scope block.
  virtual void before_eager_op(const c10::OperatorHandle &op, const torch::jit::Stack &stack) = 0;
  /// A backward pass of the body is about to run; has run. Its ops are not reported.
  virtual void before_backward() = 0;
  virtual void after_backward() = 0;
  /// An op of the body itself has run.
  virtual void after(const c10::OperatorHandle &op, const torch::jit::Stack &stack) = 0;
};

} // namespace tracehost::trace
