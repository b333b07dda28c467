#pragma once

#include "call/python_call.h"

#include <pybind11/pybind11.h>

/// `tracehost run --frozen`: a question that each trace of a call asks before it begins. Python has
/// the lock and the answer (tracehost_lock/gate.py). A hit asks nothing.

namespace tracehost::python {

/// Throws TraceError where the lock does not have the call, which has this Signature.
/// Requires: GIL held.
void ask_gate(PythonFunction &function, PythonCall &call, const Signature &signature);

void add_gate(pybind11::module_ &m);

} // namespace tracehost::python
