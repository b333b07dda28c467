#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// What staged blocks store in code that they call, for autograph.
void add_block_stores(pybind11::module_ &module);

} // namespace tracehost::python
