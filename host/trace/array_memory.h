#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <string>
#include <unordered_set>
#include <utility>
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

  /// `place` is the line that made the tensor.
  void add(const at::Tensor &t, std::string place);
  /// The line that made a tensor in the memory that `t` lies in; null without one.
  const std::string *find(const at::Tensor &t) const;
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

  /// With their places. They are kept alive: no other tensor gets their memory.
  std::vector<std::pair<at::Tensor, std::string>> tensors_;
};

} // namespace tracehost::trace
