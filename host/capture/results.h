#pragma once

#include "capture/static_inputs.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::capture {

/// What a call returns after a replay. The graph's outputs lie in the capture's pool, where the
/// next replay overwrites them, so each call gets copies.
///
/// Outputs that share memory share it in the copies. An output that lies in an input's memory
/// becomes a view of the caller's tensor.
class Results {
public:
  using Storages = std::unordered_set<const c10::StorageImpl *>;

  /// From the outputs of a capture. `constants`: memory of the graph's constants. Returns why calls
  /// can't have such results; none: they can.
  std::optional<std::string> bind(const torch::jit::Stack &outputs, const StaticInputs &inputs,
                                  const Storages &constants);
  void unbind();

  /// Hot. New memory for one call, before the replay: what may fail comes first.
  std::vector<at::Tensor> allocate() const;
  /// Hot. After the replay: copies the outputs to that memory, and appends the results.
  void append(torch::jit::Stack &stack, const std::vector<at::Tensor> &memory,
              c10::ArrayRef<c10::IValue> given) const;

  /// Memory of the constants in the block.
  static Storages storages_of_constants(const torch::jit::Block &block);

private:
  struct Result {
    enum class From : std::uint8_t { value, input, input_view, memory, view, part, earlier } from;
    std::size_t index = 0;   ///< of an input; in sources_; of an output
    c10::IValue value;       ///< a constant; else the capture's tensor
    std::int64_t offset = 0; ///< a view's from its base; a part's in its storage
  };
  std::optional<std::string> add(const at::Tensor &output, const StaticInputs &inputs,
                                 const Storages &constants);
  void add_memory(const torch::jit::Stack &outputs, const at::Tensor &output);
  std::size_t add_source(const at::Tensor &source);
  at::Tensor make(const Result &result, const std::vector<at::Tensor> &memory,
                  c10::ArrayRef<c10::IValue> given) const;

  std::vector<Result> results_;
  std::vector<at::Tensor> sources_; ///< in the pool; bytes of whole storages among them
};

} // namespace tracehost::capture
