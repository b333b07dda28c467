#pragma once

#include <pybind11/pybind11.h>

/// What a Function is asked without a call: for a ConcreteFunction, what a call would do, what
/// there is. For tracehost/_concrete.py and _reports/introspection.py.

namespace tracehost::python {

void add_requests(pybind11::module_ &module);

} // namespace tracehost::python
