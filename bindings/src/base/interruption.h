#pragma once

#include <pybind11/pybind11.h>

namespace tracehost::python {

/// From now on graphs that run on Python's main thread run the handlers of signals as Python does
/// between two instructions, and end with what a handler raises: KeyboardInterrupt.
/// Requires: GIL held.
void add_interruption(pybind11::module_ &module);

} // namespace tracehost::python
