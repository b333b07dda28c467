#pragma once

#include <Python.h>

namespace tracehost::python {

/// Refuses code of torch.optim that can't be part of a graph, when it is called in a body: LBFGS,
/// and schedulers, which keep their state in Python numbers.
/// Requires: recording.
void check_optimizer(PyFrameObject *frame);

} // namespace tracehost::python
