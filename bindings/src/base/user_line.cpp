#include "base/user_line.h"

#include "base/frame.h"
#include "base/instructions.h"
#include "base/origin.h"

#include <string_view>

namespace tracehost::python {

namespace {

thread_local PyFrameObject *outer = nullptr; // strong

/// Calls `look(frame, origin)` for the frames of the body, innermost first, until it returns true.
template <typename Look> void each_frame(const Look &look) {
  const Frame *end = outer ? frame_of(outer) : nullptr;
  for (const Frame *frame = innermost_frame(); frame && frame != end; frame = caller_of(*frame))
    if (look(*frame, origin_of(frame->code)))
      return;
}

/// In `with contextlib.suppress(...)`, whose exit method lies on the stack.
bool suppresses(const Frame &frame, const Instruction &instruction) {
  for (int i = 0; i < instruction.kept; ++i) {
    PyObject *value = stack_of(frame)[i];
    if (value && PyMethod_Check(value) &&
        std::string_view(Py_TYPE(PyMethod_GET_SELF(value))->tp_name) == "suppress")
      return true;
  }
  return false;
}

Site site_of(const Frame &frame) { return {utf8(frame.code->co_filename), line_of(frame), {}}; }

} // namespace

BodyFrames::BodyFrames() : around_(outer) { outer = PyThreadState_GetFrame(PyThreadState_Get()); }

BodyFrames::~BodyFrames() {
  Py_XDECREF(outer);
  outer = around_;
}

PyFrameObject *outer_frame() { return outer; }

Site user_line() {
  Site package;
  Site site;
  each_frame([&](const Frame &frame, Origin origin) {
    if (origin == Origin::user)
      site = site_of(frame);
    else if (!is_library(origin) && !package.line)
      package = site_of(frame);
    return site.line > 0;
  });
  if (!site.line)
    return package;
  if (package.line)
    site.inside = text(package);
  return site;
}

Site catching_line() {
  Site site;
  each_frame([&](const Frame &frame, Origin origin) {
    const Instructions *all = is_library(origin) ? nullptr : instructions_of(frame.code);
    const int unit = all ? unit_of(frame) : -1;
    if (unit >= 0 && unit < static_cast<int>(all->size()) &&
        ((*all)[unit].caught || suppresses(frame, (*all)[unit])))
      site = site_of(frame);
    return site.line > 0;
  });
  return site;
}

} // namespace tracehost::python
