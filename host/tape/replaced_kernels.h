#pragma once

#include <cstddef>

/// Kernels that a program has given ATen's ops, by torch.library.
///
/// A tape calls ATen's kernels and not what the dispatcher would choose. A kernel that is Python
/// code may also keep its arguments, which are views of a tape's memory.

namespace tracehost::tape {

/// How the process learns of them. Without Python there are none.
struct KernelRegistry {
  const std::ptrdiff_t *count = nullptr; ///< of all registrations: it moves with each one
  bool (*replaces_cpu)() = nullptr;      ///< whether one stands for an ATen op on the CPU
};
void set_kernel_registry(KernelRegistry registry);

/// Hot. Moves whenever a program registers or removes kernels.
std::ptrdiff_t count_registered_kernels();

/// Whether an ATen op has a kernel of the program's on the CPU. Takes no GIL: true where
/// registrations have come since a thread with the GIL has last asked. A trace asks.
bool replaces_kernels();

} // namespace tracehost::tape
