#pragma once

#include "base/frame.h"

#include <Python.h>

#include <string>

namespace tracehost::python {

/// Calls that change what later ops do, of which a graph would know nothing: hooks of the backward
/// pass, forward-mode AD, function transforms, dispatch modes, compiled callees, seeds, settings of
/// the process. And LBFGS, the optimizer that can't be part of a graph.
/// Each returns a sentence that says why the body is unsupported, empty where nothing is wrong.
/// Requires: GIL held.

/// For a C function that `frame` calls.
std::string why_rejected(PyObject *function, const Frame &frame);
/// For Python code of torch that begins to run.
std::string why_rejected(const Frame &frame);

} // namespace tracehost::python
