#pragma once

#include "base/object.h"
#include "tracehost/value.h"

#include <string>

/// C++ values as Python's, and back. Requires for all: GIL held.

namespace tracehost::python {

/// Throws torch's python_error.
Owned to_python(const Value &value);

/// A named tuple and a dataclass become a Map. Throws Error for what C++ has no type for; `what` is
/// the value's name there: `the result of step`.
Value from_python(PyObject *object, const std::string &what);

} // namespace tracehost::python
