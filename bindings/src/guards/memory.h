#pragma once

#include <Python.h>

/// What is in the memory of an object of C code: a numpy array, a bytearray.
///
/// Problem: numpy's code reads such memory, and anything may write to it. No slot shows either.
/// Answer: once the body has read a slot that holds such an object, a hash of its memory is
/// compared at each call (Asked::contents). A body that writes to the memory itself is traced for
/// each content that it finds.

namespace tracehost::python {

/// Whether the object has memory that may change: bytes has none, nor has a number of numpy's.
bool has_memory(PyObject *object);

/// New reference: an int, the hash of the contents, the shape and the types of elements. Null
/// without an exception: the memory holds other objects, or can't be read.
PyObject *memory_of(PyObject *object);

} // namespace tracehost::python
