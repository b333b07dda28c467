#include "tape/output_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

#include <malloc.h>

namespace tracehost::tape {
namespace {

/// What glibc keeps for a thread.
constexpr std::size_t kMostKept = 1024;
constexpr std::size_t kMostApart = 4;

/// The compiler takes memory of malloc()'s for memory that nobody has had.
void *(*volatile const allocate)(std::size_t) = &std::malloc;

bool frees_to_malloc(c10::Allocator &allocator) {
  auto memory = allocator.allocate(192);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.get());
  const std::size_t chunk = malloc_usable_size(memory.get());
  memory.clear();
  if (chunk > kMostKept)
    return false;
  void *const next = allocate(chunk);
  const bool same = reinterpret_cast<std::uintptr_t>(next) == at;
  std::free(next);
  return same;
}

/// torch's own allocator, if it frees to malloc(). A program may set another one.
struct Known {
  c10::Allocator *allocator = c10::GetDefaultCPUAllocator();
  c10::DeleterFnPtr deleter = allocator->raw_deleter();

  Known() {
    if (!deleter || !frees_to_malloc(*allocator))
      allocator = nullptr;
  }
};
const Known torchs_own; // not in the function: its initialiser would run under a lock

} // namespace

c10::DataPtr OutputMemory::take(std::size_t bytes, c10::Allocator &allocator) {
  if (chunk_ != 0 && &allocator == torchs_own.allocator) [[likely]] {
    void *const memory = std::malloc(chunk_);
    if (memory && reinterpret_cast<std::uintptr_t>(memory) % c10::gAlignment == 0) [[likely]]
      return {memory, memory, torchs_own.deleter, c10::Device(c10::DeviceType::CPU)};
    if (apart_.size() < kMostApart)
      apart_.emplace_back(memory);
    else
      std::free(memory);
  }
  c10::DataPtr memory = allocator.allocate(bytes);
  if (&allocator == torchs_own.allocator && bytes != 0 && bytes <= kMostKept)
    chunk_ = malloc_usable_size(memory.get());
  return memory;
}

} // namespace tracehost::tape
