#pragma once

#include "event/event.h"

#include <Python.h>

/// Where the user's code is. Requires for all: GIL held.

namespace tracehost::python {

/// While one lives, a Function's body runs on this thread. Lines are then looked for in the frames
/// of the body alone: the line of the call differs from call to call.
class BodyFrames {
public:
  BodyFrames();
  ~BodyFrames();
  BodyFrames(const BodyFrames &) = delete;
  BodyFrames &operator=(const BodyFrames &) = delete;

private:
  PyFrameObject *around_; ///< of the body around this one
};

/// The frame that called the Function whose body runs innermost, borrowed. Null if no body runs, or
/// if C++ called it.
PyFrameObject *outer_frame();

/// The innermost Python frame of this thread that runs the user's code. If it has called an
/// installed package, `inside` is the line there. A package's own line if no code of the user's is
/// in the frames.
Site user_line();

/// The user's or a package's line that may catch what an op raises that runs now: in a `try` with
/// an `except` or a `with contextlib.suppress(...)`, in the frames of the body. Line 0: none.
Site catching_line();

} // namespace tracehost::python
