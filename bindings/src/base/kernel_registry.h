#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// By which tracehost/_traced/kernels.py says what the program registers by torch.library.
void add_kernel_registry(pybind11::module_ &m);

} // namespace tracehost::python
