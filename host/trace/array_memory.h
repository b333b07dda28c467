#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <unordered_set>
#include <vector>

/// Memory of numpy arrays that the body has turned into tensors.
///
/// Problem: torch.from_numpy(array) shares memory with the array, and no op makes the tensor.
/// Answer: the graph has a constant with the array's values. The front end compares the contents
/// of the array at each call, so a call with other contents has another graph. A constant shares
/// no memory: a write to such a tensor, its return, and a tensor from outside in the same memory
/// are refused.

namespace tracehost::trace {

class ArrayMemory {
public:
  /// Whether the memory is of torch's own allocator, or of another device than the CPU.
  static bool is_torchs(const at::Tensor &t);

  void add(const at::Tensor &t);
  /// Whether `t` lies in the memory of a tensor that was added.
  bool holds(const at::Tensor &t) const;
  /// Whether any of the storages lies in the memory of `t`.
  static bool overlaps(const at::Tensor &t,
                       const std::unordered_set<const c10::StorageImpl *> &storages);

private:
  struct Range {
    const std::byte *begin = nullptr;
    const std::byte *end = nullptr;
    bool overlaps(const Range &other) const { return begin < other.end && other.begin < end; }
  };
  static Range range_of(const c10::StorageImpl &storage);

  std::vector<at::Tensor> tensors_; ///< alive: no other tensor gets their memory
};

} // namespace tracehost::trace
