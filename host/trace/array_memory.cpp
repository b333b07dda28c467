#include "trace/array_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstddef>

namespace tracehost::trace {

bool ArrayMemory::is_torchs(const at::Tensor &t) {
  if (!t.device().is_cpu() || !t.has_storage() || t.storage().nbytes() == 0)
    return true;
  return t.storage().data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

void ArrayMemory::add(const at::Tensor &t, std::string place) {
  tensors_.emplace_back(t, std::move(place));
}

const std::string *ArrayMemory::find(const at::Tensor &t) const {
  if (tensors_.empty() || !t.has_storage())
    return nullptr;
  const c10::StorageImpl &storage = *t.storage().unsafeGetStorageImpl();
  for (const auto &[array, place] : tensors_) {
    if (overlap(*array.storage().unsafeGetStorageImpl(), storage))
      return &place;
  }
  return nullptr;
}

bool ArrayMemory::overlap(const c10::StorageImpl &a, const c10::StorageImpl &b) {
  const auto begin = [](const c10::StorageImpl &storage) {
    return static_cast<const std::byte *>(storage.data());
  };
  return a.device().is_cpu() && b.device().is_cpu() && begin(a) && begin(b) &&
         begin(a) < begin(b) + b.nbytes() && begin(b) < begin(a) + a.nbytes();
}

} // namespace tracehost::trace
