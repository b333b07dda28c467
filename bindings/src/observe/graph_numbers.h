#pragma once

#include "base/object.h"

#include <Python.h>

/// Traced numbers in containers become Python's numbers after the trace. Requires for all: GIL
/// held.

namespace tracehost::python {

/// Replaces traced numbers, at any depth. A list or dict is changed in place, and null is returned.
/// For a number or a tuple, a new object is returned.
Owned without_graph_numbers(PyObject *value, int depth = 0);

/// The same for keys of a dict, of which the body has added some.
void replace_keys(PyObject *dict);

} // namespace tracehost::python
