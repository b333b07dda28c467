#pragma once

#include <Python.h>

/// Descriptors that call an original unless this thread records a trace, or the tensor belongs to
/// one and is read in an eager region.

namespace tracehost::python {

/// What a method does while recording; `args[0]` is the tensor, or a class method's class. Throws
/// or sets an error if that is unsupported.
using MethodGuard = PyObject *(*)(PyObject *original, const char *name, PyObject *const *args,
                                  std::size_t nargsf, PyObject *kwnames);
/// What a property does while recording. `value`: null for a read.
using PropertyGuard = PyObject *(*)(PyObject *original, const char *name, PyObject *tensor,
                                    PyObject *value);

/// Replace attribute `name` of `type` by a forwarding one. Throw when there is none.
/// Requires: GIL held. `name` lives forever.
void forward_method(PyTypeObject *type, const char *name, MethodGuard guard);
void forward_class_method(PyTypeObject *type, const char *name, MethodGuard guard);
void forward_property(PyTypeObject *type, const char *name, PropertyGuard guard);
/// The same of what belongs to a tensor's object, not to its values (`grad`). A result of a block
/// is another object than in eager. A body that continues without its trace gets eager's.
void forward_object_method(PyTypeObject *type, const char *name, MethodGuard guard);
void forward_object_property(PyTypeObject *type, const char *name, PropertyGuard guard);

/// The original, with nothing recorded meanwhile. Null with an error set.
PyObject *plain_method(PyObject *original, const char *name, PyObject *const *args,
                       std::size_t nargsf, PyObject *kwnames);
PyObject *plain_property(PyObject *original, const char *name, PyObject *tensor, PyObject *value);

/// Reads the original property, or stores `value` and returns None; null with an error set.
PyObject *original_property(PyObject *original, PyObject *tensor, PyObject *value);

} // namespace tracehost::python
