#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// `Branches`, `Loop` and what else `tracehost.autograph.staging` puts control flow together with.
void add_staging(pybind11::module_ &module);

} // namespace tracehost::python
