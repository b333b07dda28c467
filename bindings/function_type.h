#pragma once

#include <Python.h>

/// The Python type `tracehost.Function`: what the decorator returns.

namespace tracehost::python {

/// Makes the type; strong reference. Requires: GIL held. Throws.
PyObject *make_function_type();

} // namespace tracehost::python
