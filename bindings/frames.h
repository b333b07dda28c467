#pragma once

#include "event/event.h"

#include <Python.h>

/// Where the user's code is. Requires for all: GIL held.

namespace tracehost::python {

/// The innermost Python frame of this thread that runs the user's code or a package's.
Site user_line();

/// The user's line that may catch what an op raises that runs now: in a `try` with an `except`, in
/// the frames up to `outer` (null: all). Line 0: none.
Site catching_line(PyFrameObject *outer);

} // namespace tracehost::python
