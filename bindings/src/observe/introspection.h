#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// What tests ask of the tables of instructions, and whether a body prints.
void add_guards(pybind11::module_ &module);

} // namespace tracehost::python
