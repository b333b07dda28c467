#pragma once

#include "capture/key.h"
#include "tape/training.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tracehost::capture {

/// A training step as a list of ops without autograd, as tapes have it (tape/training.h).
///
/// The engine makes new gradients at each call, and a capture's would lie in its pool. In the list
/// they are inputs and results, so each call gets copies of its own.
class TrainingStep {
public:
  /// Runs the graph once, on copies. Throws tape::NoTape, and what an op throws. `draws`: it draws
  /// from the device's generator, which is restored. `complete_places`: as of Options.
  TrainingStep(const torch::jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, bool draws,
               void (*complete_places)(torch::jit::Block &));

  /// Hot. Whether autograd knows the same of the inputs as it did of those of the constructor.
  bool holds(c10::ArrayRef<c10::IValue> inputs) const;
  /// Hot. The inputs, then the gradients that the step reads.
  std::vector<c10::IValue> with_gradients(c10::ArrayRef<c10::IValue> inputs) const;
  /// Writes to the gradients of with_gradients(), as their versions count them.
  std::vector<std::int64_t> writes_to_gradients() const;

  void run(torch::jit::Stack &stack) const { torch::jit::InterpreterState(code_).run(stack); }
  /// Hot. Takes the gradients behind the outputs off the stack, and gives them to the inputs.
  void set_gradients(c10::ArrayRef<c10::IValue> inputs, torch::jit::Stack &results) const;
  /// After a plain run: appends the gradients, as run() does. None for those that are not there.
  void append_gradients(c10::ArrayRef<c10::IValue> inputs, torch::jit::Stack &results) const;

  const torch::jit::Graph &graph() const { return *flat_.graph; }

private:
  std::vector<c10::IValue> gradients(c10::ArrayRef<c10::IValue> inputs) const;

  const std::size_t inputs_;
  tape::Leaves leaves_;
  tape::FlatGraph flat_;
  Key gradients_; ///< those that are read
  torch::jit::Code code_;
};

} // namespace tracehost::capture
