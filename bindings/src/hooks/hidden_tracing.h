#pragma once

namespace tracehost::python {

/// Hides our traces from torch's Python code, which asks torch._C whether libtorch's tracer runs.
/// nn.Module asks at every call. Requires: GIL held. Throws.
void hide_tracing();

} // namespace tracehost::python
