#pragma once

#include <cstdint>

/// Kernels that a program has given ATen's ops, by torch.library.
///
/// A tape calls ATen's kernels and not what the dispatcher would choose. A kernel that is Python
/// code may also keep its arguments, which are views of a tape's memory.

namespace tracehost::tape {

/// The program has registered or removed kernels. `replaces_cpu`: an ATen op has one of them on the
/// CPU now.
void note_kernels(bool replaces_cpu);

/// Hot. Another number after each note_kernels().
std::int64_t mark_of_kernels();

/// Whether an ATen op has a kernel of the program's on the CPU.
bool replaces_kernels();

} // namespace tracehost::tape
