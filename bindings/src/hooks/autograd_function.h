#pragma once

namespace tracehost::python {

/// Replaces torch.autograd.Function.apply and the call of a scripted module's method: while this
/// thread records, they become calls of the graph (_traced/foreign.py). libtorch's tracer would
/// record the first with what its forward does in place lost, and refuse the second.
/// Requires: GIL held.
void install_foreign_patches();

} // namespace tracehost::python
