#pragma once

#include "base/object.h"

#include <Python.h>

#include <string>

/// The protocol `__tracehost_type__`: a user's class says what its instances are compared by.
///
/// The method gives a hashable value, compared by class and `==`; or an object with the methods of
/// a trace type (`is_subtype_of`, `__eq__`, `__hash__`), which compares itself. It may have more of
/// them: `most_specific_common_supertype` here; `cast`, `to_tensors`, `from_tensors`, `flatten` and
/// `placeholder_value` in user_value.h. Requires for all: GIL held.

namespace tracehost::python {

/// Whether the class has the method. Looked up by name on the class; runs no user code.
bool has_user_type(PyTypeObject *type);

/// What the method of `object` gives. Throws a SignatureError that names the class where it raises
/// or gives what can't be compared. Requires: has_user_type(Py_TYPE(object)).
Owned user_type(PyObject *object);

/// Whether it has the methods of a trace type.
bool is_trace_type(PyObject *type);

/// Whether a trace made for `type`, which an instance of `made_of` gave, serves `candidate`. False
/// where the candidate's method raises: flattening it says why. Throws as is_subtype().
bool serves(PyObject *type, PyTypeObject *made_of, PyObject *candidate);
/// Whether two results are one type.
bool same_user_type(PyObject *a, PyTypeObject *a_of, PyObject *b, PyTypeObject *b_of);

/// What `type.is_subtype_of(of)` says. Throws a SignatureError where it raises or gives no bool.
/// Requires: is_trace_type(type).
bool is_subtype(PyObject *type, PyObject *of);
/// The most specific type above both, by `type.most_specific_common_supertype([other])`; null where
/// there is none. Throws a SignatureError where it raises or gives what is not above both.
Owned common_supertype(PyObject *type, PyObject *other);

/// The method of a user's class; null where it has none. Borrowed.
PyObject *user_method(PyObject *object, const char *name);
/// Calls it. Throws a SignatureError that names class and method where it raises one that is not
/// ours; what interrupts passes through.
Owned call_user_method(PyObject *object, const char *name, PyObject *first = nullptr,
                       PyObject *second = nullptr);
/// Throws a SignatureError: `UpTo.to_tensors() {reason}`; what is set, if anything, is its cause.
[[noreturn]] void reject_user_method(PyObject *object, const char *name, const std::string &reason);
/// `int 3`, for messages.
std::string shown_result(PyObject *object);

} // namespace tracehost::python
