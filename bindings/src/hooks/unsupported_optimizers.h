#pragma once

#include <Python.h>

namespace tracehost::python {

/// Refuses the optimizer that can't be part of a graph, when it is called in a body: LBFGS.
/// Requires: recording.
void check_optimizer(PyFrameObject *frame);

} // namespace tracehost::python
