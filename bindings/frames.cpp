#include "frames.h"

#include "guards/frame.h"
#include "guards/instructions.h"
#include "origin.h"

namespace tracehost::python {

Site user_line() {
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    Site site;
    if (!is_library(origin_of(code)))
      site = {PyUnicode_AsUTF8(code->co_filename), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject *back = site.line ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    if (site.line)
      return site;
    frame = back;
  }
  return {};
}

Site catching_line(PyFrameObject *outer) {
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  Site site;
  while (frame && frame != outer && !site.line) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    const Instructions *all = !is_library(origin_of(code)) ? instructions_of(code) : nullptr;
    const int unit = all ? unit_of(*frame_of(frame)) : -1;
    if (unit >= 0 && unit < static_cast<int>(all->size()) && (*all)[unit].caught)
      site = {PyUnicode_AsUTF8(code->co_filename), PyFrame_GetLineNumber(frame)};
    Py_DECREF(code);
    PyFrameObject *back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  return site;
}

} // namespace tracehost::python
