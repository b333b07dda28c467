#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// Adds `events(function or None)`: dicts that make the package's Event objects.
void add_events(pybind11::module_ &module);

} // namespace tracehost::python
