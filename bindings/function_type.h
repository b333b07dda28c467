#pragma once

#include "event/event.h"

#include <Python.h>

/// The Python type `tracehost.Function`: what the decorator returns.

namespace tracehost::python {

/// Makes the type; strong reference. Requires: GIL held. Throws.
PyObject *make_function_type();

/// What `object` counts; null if it is no Function. Lives as long as it. Requires: GIL held.
const Counters *counters_of(PyObject *object);

} // namespace tracehost::python
