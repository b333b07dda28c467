#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <vector>

namespace tracehost::trace {

/// Whether ops of an open block change the sizes of a tensor from around the block in place.
///
///     if x.sum() > 0:
///         torch.add(a, b, out=v)      v has another shape behind the `if` than without it
///
/// A graph joins what both sides write to the memory of `v`, and not its sizes: the body has one
/// shape of `v` for both. So such an `if` is checked (staging/branches.h), and a loop is rejected.
class Reshapes {
public:
  /// An op of `block` is about to write to `t`, which `home` has made; null: no block.
  void before_write(const torch::jit::Block *block, const torch::jit::Block *home,
                    const at::Tensor &t);
  bool any(const torch::jit::Block *block) const;
  /// `block` ends.
  void close(const torch::jit::Block *block);
  /// `block` is a part of `around` from now on.
  void open(const torch::jit::Block *block, const torch::jit::Block *around);

private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  struct Written {
    const torch::jit::Block *block, *home;
    Weak tensor;
    std::vector<std::int64_t> sizes, strides; ///< before the first write in the block
  };
  std::vector<Written> written_;
};

} // namespace tracehost::trace
