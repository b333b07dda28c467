#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <pybind11/pybind11.h>

#include <string>

/// Sizes that may differ at a later call, as a traced body sees them: tensors of the class
/// tracehost._sizes.TracedSize, which does what an int does. Requires for all: GIL held.

namespace tracehost::python {

/// What that class is made of, for the module.
void add_traced_size(pybind11::module_ &module);

/// A new reference; throws where Python raises. Requires: recording.
PyObject *make_traced_size(const at::Tensor &size);
bool is_traced_size(PyObject *object);
/// Whether a tensor is a Python number to the user: a traced size, or a number that a staged block
/// made a tensor.
bool is_number(PyObject *tensor);
/// Of a tensor of one element, the bool, int or float: a new reference.
PyObject *number_of(const at::Tensor &t);

/// What holds only numbers, where `object` (stolen) is a traced size or a torch.Size with some.
PyObject *pin_sizes(PyObject *object, const std::string &why);

/// `tensor.size(dimension)`, `tensor.shape` as the body gets them; null where nothing is traced.
PyObject *traced_size_of(const at::Tensor &tensor, std::int64_t dimension);
PyObject *traced_shape_of(const at::Tensor &tensor);

} // namespace tracehost::python
