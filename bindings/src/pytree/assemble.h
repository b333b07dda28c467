#pragma once

#include "pytree/container.h"

#include <Python.h>

/// Containers put together again from what pytree/container.h takes them apart into. Requires for
/// all: GIL held.

namespace tracehost::python {

/// A new container of the class, without its `__init__`, which may want other arguments. `further`:
/// null, or a dict of what it has besides. Takes from `children`. Null with an error set where its
/// own code raises, or where it can't be made.
PyObject *put_together(const ContainerType &type, Children &children, PyObject *further);

/// Whether put_together() makes containers of this class that are as the one taken apart.
bool can_be_made(const ContainerType &type);

} // namespace tracehost::python
