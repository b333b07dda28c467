#pragma once

#include <pybind11/pybind11.h>

/// tracehost.save and load, as far as they are no Python: for tracehost/_archive.py.

namespace tracehost::python {

void add_archives(pybind11::module_ &module);

} // namespace tracehost::python
