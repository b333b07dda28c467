#pragma once

#include "event/event.h"

#include <Python.h>

/// Where the user's code is. Requires for all: GIL held.

namespace tracehost::python {

/// The innermost Python frame of this thread that is neither torch's nor ours.
Site user_line();

/// The user's line that may catch what an op raises that runs now: in a `try` with an `except`, in
/// the frames up to `outer` (null: all). Line 0: none.
Site catching_line(PyFrameObject *outer);

/// Looks up what owner() compares with: at import, where no other thread can wait for it with the
/// GIL.
void prepare_frames();

/// Whose file a code object is from; decided once a code object's file name.
enum class Owner : std::uint8_t { user, torch, standard_library, tracehost };
Owner owner(PyCodeObject *code);

} // namespace tracehost::python
