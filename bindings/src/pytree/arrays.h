#pragma once

#include "pytree/map.h"

#include <Python.h>

/// numpy's arrays and scalars as tensors. numpy is never imported here: a program that has none of
/// it has no arrays.

namespace tracehost::python {

/// Whether it stands for a tensor: an array or a scalar of numpy. Its strings are literals.
/// Requires: GIL held.
bool is_array(PyObject *object);

/// Whether it is a scalar of numpy that never changes, so that each call may return the same.
bool is_constant_scalar(PyObject *object);
/// Whether it is an array of plain values whose memory no other object holds. Requires: nothing but
/// one result refers to it.
bool is_new_array(PyObject *object);
/// Another array with these values: a new reference, or null with an error set.
PyObject *copy_of_array(PyObject *array);
/// Whether two arrays, or two scalars, have the same class, dtype, shape and bytes.
bool same_array(PyObject *a, PyObject *b);

/// Whether the program has imported numpy.
bool has_arrays();

/// A Rebuild that puts tensors in place of arrays, as torch.as_tensor does: they share memory, and
/// an array met twice is one tensor. What torch can't share (read-only, reversed, foreign byte
/// order) is copied. Throws SignatureError for a dtype that torch lacks.
Rebuild tensors_for_arrays();

/// `value` with tensors in place of its arrays, at any depth. Throws as tensors_for_arrays().
Owned with_tensors(PyObject *value);

} // namespace tracehost::python
