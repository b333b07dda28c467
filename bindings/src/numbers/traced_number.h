#pragma once

#include "base/known.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <Python.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/Size.h>

#include <cstdint>
#include <string>

/// Numbers that may differ at a later call, as a traced body sees them: those it reads from tensors
/// (trace/numbers.h), and sizes. They are tensors of the class
/// _traced.traced_number.TracedNumber, which does what a bool, an int or a float does. Requires
/// for all: GIL held.

namespace tracehost::python {

/// What that class is made of, for the module.
void add_traced_number(pybind11::module_ &module);

/// A new reference, of a traced number or size; throws where Python raises. Requires: recording.
PyObject *make_traced_number(const at::Tensor &size);
/// What `t.item()` is, a new reference. Requires: can_be_read(t).
PyObject *read_number(const at::Tensor &t);
/// Whether item() of `t` is a number of the graph. Not of a traced size, which is one already.
bool can_be_read(const at::Tensor &t);
/// What `t.tolist()` is: lists of numbers, as deep as `t` has dimensions; a new reference.
/// Requires: can_be_listed(t).
PyObject *read_numbers(const at::Tensor &t);
/// Whether its numbers can be read and are few: each is some nodes of the graph.
bool can_be_listed(const at::Tensor &t);
/// Whether a tensor is a Python number to the user: a traced number, or one that a staged block
/// made a tensor.
bool is_number(PyObject *tensor);
/// Whether a traced number or size stands for a value of the graph that this thread records.
bool is_live(const at::Tensor &number);
/// The bool, int or float of a tensor of one element: a new reference.
PyObject *number_of(const at::Tensor &t);

/// The bool, int or float that `value` is: a new reference, null with an error set.
PyObject *python_number(const c10::IValue &value);
/// What a traced number is in this call: a new reference, null where it has no data. No error is
/// set.
PyObject *value_of(PyObject *number);

/// What holds only numbers, where `object` (stolen) is a traced size or a torch.Size with some.
PyObject *specialize_sizes(PyObject *object, const std::string &why);

/// A torch.Size of what `of` gives for each dimension, a new reference. Throws where Python raises.
template <class Of> PyObject *make_size(std::int64_t dimensions, const Of &of) {
  pybind11::tuple sizes(static_cast<std::size_t>(dimensions));
  for (std::int64_t d = 0; d < dimensions; ++d)
    sizes[static_cast<std::size_t>(d)] = pybind11::reinterpret_steal<pybind11::object>(of(d));
  const pybind11::handle type(reinterpret_cast<PyObject *>(&THPSizeType));
  return type(sizes).release().ptr();
}

/// `tensor.size(dimension)`, `tensor.shape` as the body gets them; null where nothing is traced.
PyObject *traced_size_of(const at::Tensor &tensor, std::int64_t dimension);
PyObject *traced_shape_of(const at::Tensor &tensor);

} // namespace tracehost::python
