#include "trace/array_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>

namespace tracehost::trace {

bool ArrayMemory::is_torchs(const at::Tensor &t) {
  if (!t.device().is_cpu() || !t.has_storage() || t.storage().nbytes() == 0)
    return true;
  return t.storage().data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

/// Empty for a storage without data, and for one of another device.
ArrayMemory::Range ArrayMemory::range_of(const c10::StorageImpl &storage) {
  if (!storage.device().is_cpu() || !storage.data())
    return {};
  const auto *begin = static_cast<const std::byte *>(storage.data());
  return {begin, begin + storage.nbytes()};
}

void ArrayMemory::add(const at::Tensor &t) { tensors_.push_back(t); }

bool ArrayMemory::holds(const at::Tensor &t) const {
  return !tensors_.empty() && t.has_storage() &&
         std::any_of(tensors_.begin(), tensors_.end(), [&](const at::Tensor &array) {
           return overlaps(array, {t.storage().unsafeGetStorageImpl()});
         });
}

bool ArrayMemory::overlaps(const at::Tensor &t,
                           const std::unordered_set<const c10::StorageImpl *> &storages) {
  const Range range = range_of(*t.storage().unsafeGetStorageImpl());
  return std::any_of(storages.begin(), storages.end(), [&](const c10::StorageImpl *storage) {
    return range_of(*storage).overlaps(range);
  });
}

} // namespace tracehost::trace
