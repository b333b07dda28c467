#pragma once

#include "random.h"
#include "tensors.h"
#include "traits.h"

#include <memory>
#include <optional>

/// A call of an op that can run any number of times: its arguments with forms in the place of CUDA
/// tensors (tensors.h).
namespace standin {

using torch::jit::Stack;

class Call {
public:
  /// Raises PyTorch's error if the arguments are on several devices.
  Call(const c10::OperatorHandle &op, const Stack &arguments, c10::Device device);

  /// Runs the CPU's kernel. `placed`: gets the arguments' tensors of this run, in the order of
  /// originals().
  Stack run(Memory &memory, std::vector<at::Tensor> *placed = nullptr) const;

  /// All tensors of the arguments.
  const std::vector<at::Tensor> &originals() const { return originals_; }
  /// The original is an `out=` argument.
  bool is_out(std::size_t original) const { return is_out_[original]; }

  /// Releases the program's tensors, before the call is put into a queue: to drop one of them needs
  /// Python's GIL, which the thread that runs the queue may not have.
  void forget_originals();

  const std::vector<Span> &touches() const { return touches_; }
  const std::vector<Span> &writes() const { return writes_; }

private:
  void add_argument(std::size_t position, const c10::IValue &argument, c10::Device device);
  at::Tensor form_of_argument(std::size_t position, const at::Tensor &tensor, c10::Device device);

  c10::OperatorHandle op_;
  const Traits &traits_;
  Stack forms_;
  Storages storages_; ///< while the forms are made
  std::vector<at::Tensor> originals_;
  std::vector<bool> is_out_;
  std::vector<Span> touches_;
  std::vector<Span> writes_;
  std::optional<at::PhiloxCudaState> numbers_;
};

} // namespace standin
