#include "tape/output_memory.h"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace tracehost::tape {
namespace {

bool is_aligned(const c10::DataPtr &memory) {
  return reinterpret_cast<std::uintptr_t>(memory.get()) % c10::gAlignment == 0;
}

TEST(OutputMemory, IsAsTorchsAllocatorGivesIt) {
  c10::Allocator &torchs = *c10::GetDefaultCPUAllocator();
  for (const std::size_t bytes : {0, 1, 16, 64, 100, 1000, 1024, 1025, 100'000}) {
    const auto before = torchs.allocate(bytes);
    OutputMemory output;
    auto first = output.take(bytes, torchs);
    auto second = output.take(bytes, torchs); // of memory that another has just had
    second.clear();
    second = output.take(bytes, torchs);
    for (const auto *memory : {&first, &second}) {
      EXPECT_TRUE(is_aligned(*memory)) << bytes;
      EXPECT_TRUE(torchs.is_simple_data_ptr(*memory)) << bytes; // may be copied on write
      EXPECT_EQ(memory->get_deleter(), before.get_deleter()) << bytes;
      EXPECT_EQ(memory->get_context(), before.get_context() ? memory->get() : nullptr) << bytes;
      EXPECT_EQ(memory->device(), before.device());
    }
    EXPECT_TRUE(bytes == 0 || first.get() != second.get());
  }
}

TEST(OutputMemory, IsNotTakenFromMallocWhereAnotherAllocatorIsSet) {
  struct Counting final : c10::Allocator {
    c10::DataPtr allocate(std::size_t bytes) override {
      ++calls;
      return c10::GetDefaultCPUAllocator()->allocate(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
    void copy_data(void *to, const void *from, std::size_t bytes) const override {
      default_copy_data(to, from, bytes);
    }
    int calls = 0;
  } counting;
  OutputMemory output;
  const auto first = output.take(64, counting), second = output.take(64, counting);
  EXPECT_EQ(counting.calls, 2);
  EXPECT_TRUE(is_aligned(first) && is_aligned(second));
}

/// posix_memalign() gives memory that malloc() gives again: what a loop drops is what it gets.
TEST(OutputMemory, OfADroppedOutputIsUsedAgain) {
  c10::Allocator &torchs = *c10::GetDefaultCPUAllocator();
  for (const std::size_t bytes : {1, 36, 64, 256, 1000}) {
    OutputMemory output;
    auto memory = output.take(bytes, torchs);
    memory.clear();
    const void *before = nullptr;
    for (int i = 0; i < 4; ++i) { // the thread may have kept other chunks of this size
      memory = output.take(bytes, torchs);
      before = memory.get();
      memory.clear();
    }
// Sanitizers have a heap of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_EQ(output.take(bytes, torchs).get(), before) << bytes;
#endif
  }
}

} // namespace
} // namespace tracehost::tape
