#pragma once

#include "environment/gil.h"

#include <Python.h>

/// The protocol `__tracehost_type__`: a user's class says what its instances are compared by.
///
/// The method gives a hashable value, compared by class and `==`; or an object with the methods of
/// a trace type (`is_subtype_of`, `__eq__`, `__hash__`; perhaps `placeholder_value`), which
/// compares itself. Requires for all: GIL held.

namespace tracehost::python {

/// Whether the class has the method. Looked up by name on the class; runs no user code.
bool has_user_type(PyTypeObject *type);

/// What the method of `object` gives. Throws a SignatureError that names the class where it raises
/// or gives what can't be compared. Requires: has_user_type(Py_TYPE(object)).
Owned user_type(PyObject *object);

/// Whether a trace made for `type`, which an instance of `made_of` gave, serves `candidate`. False
/// where the candidate's method raises: flattening it says why.
bool serves(PyObject *type, PyTypeObject *made_of, PyObject *candidate);
/// Whether two results are one type.
bool same_user_type(PyObject *a, PyTypeObject *a_of, PyObject *b, PyTypeObject *b_of);

/// What the body sees for `object` while it is traced: what its type's placeholder_value() makes;
/// null where the type has no such method. A new reference. Throws what that raises.
PyObject *placeholder(PyObject *object);

} // namespace tracehost::python
