#pragma once

#include "call.h"

/// The results of a call: which tensors the program gets for what the CPU's kernel returned.
///
///     an argument              the program's tensor
///     an `out=` argument       the program's tensor, resized; its elements are copied
///     a view of an argument    the same view of the program's tensor
///     anything else            a new CUDA tensor; its elements are copied
///
/// Where elements are copied to is kept as a form, so that each further run copies them again.
namespace standin {

class Results {
public:
  Results(const Call &call, c10::Device device) : call_(call), device_(device) {}

  /// What the program gets. `placed`: the arguments of the run that returned `results`.
  Stack adopt(const Stack &results, const std::vector<at::Tensor> &placed);

  struct Target {
    std::size_t number; ///< among all tensors of the results
    at::Tensor form;
  };
  const std::vector<Target> &targets() const { return targets_; }
  /// The memory of new tensors, which nothing else uses.
  const std::vector<Span> &fresh() const { return fresh_; }

private:
  at::Tensor adopt_tensor(const at::Tensor &result, const std::vector<at::Tensor> &placed);
  at::Tensor adopt_argument(const at::Tensor &original, const at::Tensor &result, bool is_out);
  at::Tensor make(const at::Tensor &result) const;
  void add_target(const at::Tensor &tensor);

  const Call &call_;
  c10::Device device_;
  std::size_t number_ = 0;
  std::vector<Target> targets_;
  std::vector<Span> fresh_;
};

/// Copies what a run returned to the targets.
void fill(const std::vector<Results::Target> &targets, const Stack &results, Memory &memory);

} // namespace standin
