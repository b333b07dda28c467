#pragma once

#include <Python.h>

namespace tracehost::python {

/// Raises if a body calls LBFGS, the optimizer that can't be part of a graph. Requires: recording.
void check_optimizer(PyFrameObject *frame);

} // namespace tracehost::python
