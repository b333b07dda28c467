#pragma once

#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace tracehost {

/// The checks at the start of a graph, run apart from it.
///
/// Problem: a check in the graph leaves the run by an exception. Two graphs that serve in turn
/// (`if self.n % 2`) leave one at each call. Answer: such checks follow from few ops on numbers,
/// which are run before the graph. The graph has them as well, for who runs it by itself.
///
///     %2 : int = aten::item(%capture_0)         a step
///     %3 = tracehost::py_mod(%2, %two)          a step
///     = tracehost::check_number(%3, %one)  a check
///     %4 : Tensor = aten::mul(%x, %x)           the end
class EarlyChecks {
public:
  EarlyChecks() = default;
  explicit EarlyChecks(const torch::jit::Graph &graph);

  /// Hot. Whether they hold for these inputs of the graph. So do those after an op that raises: the
  /// graph will raise.
  bool hold(c10::ArrayRef<c10::IValue> inputs) const { return steps_.empty() || run(inputs); }
  std::size_t count() const { return count_; }

private:
  struct Step {
    enum Kind : std::uint8_t { read, compute, check } what;
    bool of_kind = false;                        ///< a check: check_kind
    std::function<void(torch::jit::Stack &)> op; ///< compute
    std::vector<std::uint32_t> operands;         ///< places of values; read: the input
    std::uint32_t result = 0;                    ///< compute, read
  };
  bool run(c10::ArrayRef<c10::IValue> inputs) const;

  std::vector<Step> steps_;         ///< up to the last check
  std::size_t count_ = 0;           ///< of checks
  std::vector<c10::IValue> values_; ///< constants at their places, others None
};

} // namespace tracehost
