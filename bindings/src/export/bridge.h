#pragma once

#include <pybind11/pybind11.h>

/// What C++ programs ask of Python: the other side of host/runtime/bridge.h.

namespace tracehost::python {

/// Adds the capsule. Requires: GIL held.
void add_bridge(pybind11::module_ &module);

} // namespace tracehost::python
