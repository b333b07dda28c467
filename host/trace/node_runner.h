#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>
#include <vector>

namespace tracehost::trace {

/// Runs one recorded node on values that tracehost makes: fake tensors for tensors, real ones for
/// what is computed from sizes alone. Requires for run(): ops run without data
/// (shapes::WithoutData).
class NodeRunner {
public:
  enum class Verdict {
    done,
    unknown, ///< can't be run without data: a result whose size depends on values
    failed,  ///< the op says that these sizes don't fit
  };

  explicit NodeRunner(torch::jit::Node *node);

  /// `inputs` as the node's. Fills `outputs` if done, else message() says why not.
  Verdict run(std::vector<c10::IValue> inputs, std::vector<c10::IValue> &outputs);
  const std::string &message() const { return message_; }

  /// The value of a prim::Constant as run() takes it.
  static c10::IValue constant(const torch::jit::Value *value);
  /// A fake tensor of `t`'s kind and order of strides, with these sizes. Undefined for layouts that
  /// have none.
  static at::Tensor fake_tensor(const at::Tensor &t, c10::IntArrayRef sizes);

private:
  Verdict call(std::vector<c10::IValue> &inputs, std::vector<c10::IValue> &outputs);
  Verdict gradients(std::vector<c10::IValue> &inputs, std::vector<c10::IValue> &outputs);
  Verdict structure(std::vector<c10::IValue> &inputs, std::vector<c10::IValue> &outputs);
  Verdict operation(std::vector<c10::IValue> inputs, std::vector<c10::IValue> &outputs);

  torch::jit::Node *node_;
  std::optional<torch::jit::Operation> operation_;
  const c10::FunctionSchema *schema_ = nullptr;
  /// Set where the sizes of its result may depend on values.
  std::optional<c10::OperatorHandle> inexact_;
  std::string message_;
};

} // namespace tracehost::trace
