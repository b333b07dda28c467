#pragma once

#include "signature/tensor_spec.h"

#include <pybind11/pybind11.h>

/// The Python class `tracehost.TensorSpec` over the core's. Requires for all: GIL held.

namespace tracehost::python {

/// Adds the class to the extension module.
void add_tensor_spec(pybind11::module_ &module);

/// Null if `object` is no TensorSpec; the object owns it.
const TensorSpec *as_tensor_spec(PyObject *object);

} // namespace tracehost::python
