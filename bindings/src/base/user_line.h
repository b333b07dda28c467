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

/// Whether the innermost frame of the body that is not tracehost's own is the user's or a
/// package's.
bool is_made_by_user();

/// The user's or a package's line that may catch what an op raises that runs now: in a `try` with
/// an `except` or a `with contextlib.suppress(...)`, in the frames of the body. Line 0: none.
Site catching_line();

/// Whether the user's code acts where an op raises that runs now. It acts in an `except` or
/// `suppress` as above, in a `finally`, and in a `with` of the user's class or generator.
bool acts_on_raise();

} // namespace tracehost::python
