#include "tape/output_memory.h"

#include <c10/core/CPUAllocator.h>

#include <cstdint>
#include <cstdlib>

namespace tracehost::tape {
namespace {

/// What glibc keeps for a thread.
constexpr std::size_t kMostKept = 1024;

/// The compiler takes memory of malloc()'s for memory that nobody has had.
void *(*volatile const allocate)(std::size_t) = &std::malloc;

bool frees_to_malloc(c10::Allocator &allocator) {
  constexpr std::size_t kTried = 192;
  auto memory = allocator.allocate(kTried);
  const auto at = reinterpret_cast<std::uintptr_t>(memory.get());
  memory.clear();
  void *const next = allocate(kTried);
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

} // namespace

c10::DataPtr memory_for(std::size_t bytes, c10::Allocator &allocator) {
  static const Known known;
  if (&allocator == known.allocator && bytes - 1 < kMostKept) [[likely]] {
    void *const memory = std::malloc(bytes);
    if (memory && reinterpret_cast<std::uintptr_t>(memory) % c10::gAlignment == 0) [[likely]]
      return {memory, memory, known.deleter, c10::Device(c10::DeviceType::CPU)};
    std::free(memory);
  }
  return allocator.allocate(bytes);
}

} // namespace tracehost::tape
