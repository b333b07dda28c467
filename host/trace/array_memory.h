#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

/// Memory of numpy arrays that the body has turned into tensors.
///
/// Problem: torch.from_numpy(array) shares memory with the array, and no op makes the tensor.
/// Answer: the graph has a constant with the array's values. The front end compares the contents of
/// the array at each call, so a call with other contents has another graph. A constant shares no
/// memory. So a write to such a tensor, its return, and a tensor from outside in the same memory
/// are unsupported.

namespace tracehost::trace {

class ArrayMemory {
public:
  /// Whether the memory is of torch's own allocator, or of another device than the CPU.
  static bool is_torchs(const at::Tensor &t);

  /// `place` is the line that made the tensor.
  void add(const at::Tensor &t, std::string place);
  /// The line that made a tensor in the memory that `t` lies in; null without one.
  const std::string *find(const at::Tensor &t) const;
  /// Whether two storages on the CPU have a byte in common.
  static bool overlap(const c10::StorageImpl &a, const c10::StorageImpl &b);

private:
  /// With their places. They are kept alive: no other tensor gets their memory.
  std::vector<std::pair<at::Tensor, std::string>> tensors_;
};

} // namespace tracehost::trace
