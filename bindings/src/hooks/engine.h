#pragma once

#include <pybind11/pybind11.h>

/// Python's one way to libtorch's autograd engine, Variable._execution_engine.run_backward, in
/// which backward(), torch.autograd.backward and torch.autograd.grad end: _traced/engine.py puts
/// an engine in its place that asks this.

namespace tracehost::python {

void add_engine(pybind11::module_ &module);

} // namespace tracehost::python
