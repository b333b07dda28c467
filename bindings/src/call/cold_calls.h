#pragma once

#include "call/python_call.h"

#include <Python.h>

#include <string>

/// Calls of a Function that are not hits. Requires for all: GIL held.

namespace tracehost::python {

/// A call's arguments as they came.
struct Arguments {
  PyObject *const *args;
  std::size_t nargsf;
  PyObject *kwnames;
};

/// Runs the body as it is, in place of a graph.
[[gnu::cold]] PyObject *call_eagerly(PythonFunction &f, const Arguments &a);

/// A call in a trace of tracehost or of torch.jit: its ops belong to that graph.
[[gnu::cold]] PyObject *call_inlined(PythonFunction &f, const Arguments &a);

/// A call that FunctionCore did not serve by a graph alone. Warnings come after a trace was
/// published: a filter may turn them into errors.
[[gnu::cold]] PyObject *call_missed(PythonFunction &f, PythonCall &call,
                                    FunctionCore::Outcome outcome);

/// For a call that no graph serves (plain_calls.h): runs the body, and warns once for each
/// `around`.
[[gnu::cold]] PyObject *call_plainly(PythonFunction &f, const Arguments &a,
                                     const std::string &around);

/// In a checkpoint. What can't be traced without data runs as plain Python.
[[gnu::cold]] PyObject *call_traced_ahead(PyObject *self, const Arguments &a);

/// Sets the Python error for the exception being handled. An op that failed in a graph gets a note
/// with the user's line.
[[gnu::cold]] PyObject *call_failed(PythonFunction &f, const PythonCall &call, const Arguments &a);

} // namespace tracehost::python
