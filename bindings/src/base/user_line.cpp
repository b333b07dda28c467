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
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  bool found = false;
  while (frame && frame != outer && !found) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    found = look(frame, code, origin_of(code));
    Py_DECREF(code);
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
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

Site site_of(PyFrameObject *frame, PyCodeObject *code) {
  return {PyUnicode_AsUTF8(code->co_filename), PyFrame_GetLineNumber(frame), {}};
}

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
  each_frame([&](PyFrameObject *frame, PyCodeObject *code, Origin origin) {
    if (origin == Origin::user)
      site = site_of(frame, code);
    else if (!is_library(origin) && !package.line)
      package = site_of(frame, code);
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
  each_frame([&](PyFrameObject *frame, PyCodeObject *code, Origin origin) {
    const Instructions *all = is_library(origin) ? nullptr : instructions_of(code);
    const int unit = all ? unit_of(*frame_of(frame)) : -1;
    if (unit >= 0 && unit < static_cast<int>(all->size()) &&
        ((*all)[unit].caught || suppresses(*frame_of(frame), (*all)[unit])))
      site = site_of(frame, code);
    return site.line > 0;
  });
  return site;
}

} // namespace tracehost::python
