#pragma once

#include <torch/csrc/jit/ir/ir.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// Calls from a graph to code that is no graph: Python's, for tracehost.py_function.
///
///     %scaled : ...tracehost.Callback = prim::Constant[value=object]()
///     %2 : Tensor[] = prim::ListConstruct(%x)
///     %3 : Tensor[] = tracehost::py_function(%scaled, %2)
///     %4 : Tensor = prim::ListUnpack(%3)
///
/// No pass knows what the code does: the op is never removed, moved, merged or run ahead.

namespace tracehost {

/// The code. A graph has it as a constant, which owns it.
class Callback : public torch::CustomClassHolder {
public:
  struct Result {
    at::ScalarType dtype;
    std::optional<std::vector<std::optional<std::int64_t>>> sizes; ///< those that are promised

    bool is_exact() const;
  };

  Callback(std::string name, std::vector<Result> results)
      : name(std::move(name)), results(std::move(results)) {}
  /// Runs on any thread, on several at once. Returns as many tensors as there are results, of
  /// their dtypes and sizes, or throws.
  virtual std::vector<at::Tensor> call(std::vector<at::Tensor> inputs) = 0;

  const std::string name; ///< what the user calls it
  const std::vector<Result> results;
  std::size_t owners = 0; ///< how many references to it its Program has
};

/// Puts a call at the graph's insert point. Returns the node that gives the results; its input is
/// what the call gives.
torch::jit::Node *insert_call(torch::jit::Graph &graph,
                              const c10::intrusive_ptr<Callback> &callback,
                              c10::ArrayRef<torch::jit::Value *> inputs);

bool is_call(const torch::jit::Node &node);
/// What a call node calls.
c10::intrusive_ptr<Callback> callback_of(const torch::jit::Node &call);

} // namespace tracehost
