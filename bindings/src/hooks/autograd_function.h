#pragma once

namespace tracehost::python {

/// Replaces torch.autograd.Function.apply and the call of a scripted module's method. While this
/// thread records, they become calls of the graph (_traced/foreign.py). libtorch's tracer would
/// lose what the forward of the first does in place, and would raise for the second.
/// Requires: GIL held.
void install_foreign_patches();

} // namespace tracehost::python
