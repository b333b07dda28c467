#pragma once

#include "call/instances.h"
#include "call/python_function.h"
#include "event/event.h"

#include <Python.h>

#include <string>

/// The Python type `tracehost.Function`: what the decorator returns.

namespace tracehost::python {

/// The object. Its vectorcall is call_function() (python_call.cpp).
struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *dict;
  PyObject *weakrefs;
  PythonFunction *function; ///< owned; null before __init__
  PyObject *arguments;      ///< of __init__: an instance's Function is made from the same
  Instances *instances;     ///< owned; null until it is accessed on an instance
};

/// Hot: a call of a Function. Requires: GIL held.
PyObject *call_function(PyObject *self, PyObject *const *args, std::size_t nargsf,
                        PyObject *kwnames);

/// Makes the type; strong reference. Requires: GIL held. Throws.
PyObject *make_function_type();

/// The attribute `name` of `type` is `value` from now on. Calls, and access on an instance, are as
/// before: they use the type's slots, not the attribute. Throws py::error_already_set.
void show(PyObject *type, const char *name, PyObject *value);

/// What `object` counts; null if it is no Function. Lives as long as it. Requires: GIL held.
const Counters *counters_of(PyObject *object);

/// What a Function object has; throws TypeError for another object. Requires: GIL held.
PythonFunction &python_function(PyObject *object);

/// The Python error that is set gets a note that names `where`, the line of the op that failed;
/// empty: none. Requires: GIL held.
void note_failed_op(const std::string &function, const std::string &where);

/// Turns the exception of Program::run that is being handled into a Python error, with a note that
/// names the line of the op that failed. Requires: GIL held.
void set_from_failed_run(const std::string &function);

} // namespace tracehost::python
