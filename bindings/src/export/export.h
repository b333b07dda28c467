#pragma once

#include <pybind11/pybind11.h>

/// What leaves Python: archives, and functions that C++ programs call. Requires for all: GIL held.

namespace tracehost::python {

/// tracehost.save and load, as far as they are no Python: for tracehost/_archive.py.
void add_archives(pybind11::module_ &module);

/// Adds the capsule by which C++ programs ask Python: the other side of host/runtime/bridge.h.
void add_bridge(pybind11::module_ &module);

} // namespace tracehost::python
