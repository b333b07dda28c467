#pragma once

namespace tracehost::python {

/// From now on tapes know which kernels a program registers by torch.library.
/// Requires: GIL held; torch is imported.
void watch_kernel_registry();

} // namespace tracehost::python
