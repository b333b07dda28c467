#pragma once

#include <Python.h>

namespace tracehost::python {

/// Refuses code of torch.optim that can't be part of a graph, when it is called in a body: what
/// reads values (Adam without fused or capturable), and what has not been shown equal to eager.
/// Requires: recording.
void check_optimizer(PyFrameObject *frame);

} // namespace tracehost::python
