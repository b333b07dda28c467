#pragma once

#include "signature/context.h"

/// The Python side of Context. Requires: GIL held.

namespace tracehost::python {

/// Context::now() with the default device. Throws RunsPlain where a mode is active that a graph
/// can't honour: TorchFunction modes but a DeviceContext, TorchDispatch modes, functorch
/// transforms.
Context probe_context();
/// As well, but throws TraceError there: for what has no body to run.
Context require_context();

} // namespace tracehost::python
