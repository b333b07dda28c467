#include "tape/replaced_kernels.h"

#include <atomic>

namespace tracehost::tape {
namespace {

std::atomic<std::int64_t> mark{0};
std::atomic<bool> replaced{false};

} // namespace

void note_kernels(bool replaces_cpu) {
  replaced = replaces_cpu;
  ++mark;
}

std::int64_t mark_of_kernels() { return mark.load(std::memory_order_relaxed); }

bool replaces_kernels() { return replaced; }

} // namespace tracehost::tape
