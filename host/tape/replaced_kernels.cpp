#include "tape/replaced_kernels.h"

#include <atomic>

namespace tracehost::tape {
namespace {

KernelRegistry registry_of_process; ///< set once, when the extension module is imported

} // namespace

void set_kernel_registry(KernelRegistry registry) { registry_of_process = registry; }

std::ptrdiff_t count_registered_kernels() {
  const std::ptrdiff_t *count = registry_of_process.count;
  return count
             ? std::atomic_ref(*const_cast<std::ptrdiff_t *>(count)).load(std::memory_order_relaxed)
             : 0;
}

bool replaces_kernels() {
  return registry_of_process.replaces_cpu && registry_of_process.replaces_cpu();
}

} // namespace tracehost::tape
