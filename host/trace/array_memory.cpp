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

void ArrayMemory::add(const at::Tensor &t, std::string place) {
  tensors_.emplace_back(t, std::move(place));
}

const std::string *ArrayMemory::find(const at::Tensor &t) const {
  if (tensors_.empty() || !t.has_storage())
    return nullptr;
  const std::unordered_set<const c10::StorageImpl *> storage{t.storage().unsafeGetStorageImpl()};
  for (const auto &[array, place] : tensors_) {
    if (overlaps(array, storage))
      return &place;
  }
  return nullptr;
}

bool ArrayMemory::overlaps(const at::Tensor &t,
                           const std::unordered_set<const c10::StorageImpl *> &storages) {
  const Range range = range_of(*t.storage().unsafeGetStorageImpl());
  return std::any_of(storages.begin(), storages.end(), [&](const c10::StorageImpl *storage) {
    return range_of(*storage).overlaps(range);
  });
}

} // namespace tracehost::trace
