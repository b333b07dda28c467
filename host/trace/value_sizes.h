#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_set>

namespace tracehost::trace {

class Trace;

/// Sizes that depend on values: of nonzero, of a mask as index. The body may read one where the
/// graph can check it.
class ValueSizes {
public:
  explicit ValueSizes(Trace &trace) : trace_(trace) {}

  /// Whether `t`'s sizes follow from the signature.
  bool exact(const at::Tensor &t) const;
  bool any() const { return !values_.empty(); }
  bool has(const torch::jit::Value *value) const { return values_.contains(value); }
  void note(const torch::jit::Value *value) { values_.insert(value); }
  /// The sizes of an op's results depend on numbers; of a list that is taken apart, of its tensors.
  void note_results(const torch::jit::Node &node);
  void forget(const torch::jit::Value *value) { values_.erase(value); }

  /// `what` takes `t` apart: the graph checks its sizes, if they depend on values.
  void check(const at::Tensor &t, const std::string &what);
  /// An op returns as many tensors as its input has sizes: the graph checks them.
  void check_parts(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  /// Such sizes say which dimensions the op's result has: the graph checks how many. `stack`: with
  /// the result.
  void check_rank(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  [[noreturn]] void reject_sizes(const std::string &what);

private:
  Trace &trace_;
  std::unordered_set<const torch::jit::Value *> values_;
};

} // namespace tracehost::trace
