#pragma once

#include "base/object.h"
#include "pytree/container.h"

#include <Python.h>
#include <c10/util/SmallVector.h>

/// Containers put together again from what pytree/container.h takes them apart into. Requires for
/// all: GIL held.

namespace tracehost::python {

/// In the order of a Signature's nodes; null: an attribute that is absent. A custom one's first is
/// what its class calls context.
using Children = c10::SmallVector<Owned, 6>;

/// A new container of the class, without its `__init__`, which may want other arguments. `further`:
/// null, or a dict of what it has besides. Takes from `children`. Null with an error set where its
/// own code raises, or where it can't be made.
PyObject *put_together(const ContainerType &type, Children &children, PyObject *further);

/// Whether put_together() makes containers of this class that are as the one taken apart.
bool can_be_made(const ContainerType &type);

} // namespace tracehost::python
