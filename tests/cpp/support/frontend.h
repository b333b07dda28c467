#pragma once

#include "program/program.h"
#include "trace/frontend.h"
#include "trace/tracer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tracehost::test {

/// What a trace asks, answered: every tensor that it does not know is `w0`, `w1`, ...
class FakeFrontend final : public trace::Frontend {
public:
  /// What `reject()` throws.
  struct Rejected : std::runtime_error {
    Rejected(trace::Rejection rejection, const std::string &message)
        : std::runtime_error(message), why(rejection) {}
    trace::Rejection why;
  };

  bool traces_reads() const override { return reads; }
  Site here() override { return {"/home/user/net.py", line}; }
  /// Each op is called by another one.
  trace::Instruction instruction() override { return {this, ++instructions_}; }
  bool without_data() const override { return runs_nothing; }
  std::string capture_path(const at::Tensor &tensor) override {
    if (known_only)
      reject(trace::Rejection::capture, "unknown");
    asked.push_back(tensor);
    return "w" + std::to_string(asked.size() - 1);
  }
  [[noreturn]] void reject(trace::Rejection why, const std::string &message) override {
    throw Rejected(why, message);
  }

  bool goes_on(trace::Rejection why) override { return go_on && go_on(why); }

  bool reads = false; ///< gives a number of the graph; else it raises
  int line = 12;
  /// Whether an unsupported body continues without a graph.
  std::function<bool(trace::Rejection)> go_on;
  bool known_only = false; ///< captures are unsupported
  std::vector<at::Tensor> asked;
  bool runs_nothing = false; ///< ops run without data

private:
  int instructions_ = 0;
};

/// Runs the graph as a hit would; the `outputs` tensors that it leaves.
inline std::vector<at::Tensor> replay(const trace::Traced &traced, std::size_t outputs,
                                      const std::vector<at::Tensor> &inputs) {
  const Program program(traced.graph->copy(), "test", outputs);
  torch::jit::Stack stack(inputs.begin(), inputs.end());
  program.run(stack);
  std::vector<at::Tensor> results;
  for (const auto &value : stack)
    results.push_back(value.toTensor());
  return results;
}

/// The ops of the graph in order, without constants.
inline std::vector<std::string> kinds(const torch::jit::Graph &graph) {
  std::vector<std::string> result;
  for (const auto *node : graph.nodes())
    if (node->kind() != c10::prim::Constant)
      result.emplace_back(node->kind().toQualString());
  return result;
}

inline at::Tensor number(std::int64_t n) { return at::scalar_tensor(n, at::kLong); }

} // namespace tracehost::test
