#pragma once

#include "base/cpython.h"
#include "base/object.h"

#if PY_VERSION_HEX >= 0x030E0000
#include "base/frame_3_14.h"
#elif PY_VERSION_HEX >= 0x030C0000
#include "base/frame_3_12.h"
#else
#include "base/frame_3_11.h"
#endif

#include <cstdint>
#include <string_view>

/// A running frame as the interpreter has it: its variables and its value stack. The layout is
/// fixed within a minor version of Python, and stands in a file for each. What else differs in how
/// code uses the stack is here.

namespace tracehost::python {

/// How `CALL` finds what is called: below its arguments lie two words. 3.13 has the callable first,
/// then `self` or null; before that null or the method, then the callable or `self`.
inline constexpr bool kCallableFirst = PY_VERSION_HEX >= 0x030D0000;

/// Bits of LOAD_ATTR's argument below the index of the name.
inline constexpr int kAttributeShift = PY_VERSION_HEX >= 0x030C0000 ? 1 : 0;

/// What the stack of a generator holds when it starts.
inline constexpr int kGeneratorDepth = PY_VERSION_HEX >= 0x030D0000 ? 0 : 1;

/// Whether CALL_FUNCTION_EX always finds a word for named arguments, null where there are none;
/// before, its argument says so.
inline constexpr bool kAlwaysNames = PY_VERSION_HEX >= 0x030E0000;

/// Whether FORMAT_VALUE says by its argument that a specification lies above the value.
inline constexpr bool kFormatsWithArgument = PY_VERSION_HEX < 0x030D0000;

/// The innermost frame of this thread, null if no Python code is under way. Requires: GIL held.
inline Frame *innermost_frame() {
  PyThreadState *thread = PyThreadState_Get();
#if PY_VERSION_HEX >= 0x030D0000
  return reinterpret_cast<Frame *>(thread->current_frame);
#else
  return reinterpret_cast<Frame *>(thread->cframe->current_frame);
#endif
}

/// The Python object of a frame, as far as we use it: `PyFrameObject`.
struct FrameObject {
  PyObject_HEAD PyFrameObject *back;
  Frame *frame;
  PyObject *trace;
  int line;
  char trace_lines, trace_opcodes; ///< which events a trace function gets
};

inline FrameObject &fields_of(PyFrameObject *frame) {
  return *reinterpret_cast<FrameObject *>(frame);
}

inline Frame *frame_of(PyFrameObject *frame) { return fields_of(frame).frame; }

/// The code that a frame runs, as an object.
inline PyObject *code_object(const Frame &frame) {
  PyCodeObject *code = frame.code;
  return reinterpret_cast<PyObject *>(code);
}

/// The code unit that a frame is at.
inline int unit_of(const Frame &frame) {
  return static_cast<int>(frame.before -
                          reinterpret_cast<std::uint16_t *>(frame.code->co_code_adaptive));
}

/// The frame of Python code that called, itself or by C code; null: none.
inline const Frame *caller_of(const Frame &frame) {
  const Frame *caller = frame.previous;
  while (caller && is_empty(*caller))
    caller = caller->previous;
  return caller;
}

/// The line that a frame is at.
inline int line_of(const Frame &frame) {
  return PyCode_Addr2Line(frame.code, unit_of(frame) * static_cast<int>(sizeof *frame.before));
}

/// What the local variable of that name holds, borrowed; null: nothing, or there is none.
inline PyObject *local_named(const Frame &frame, std::string_view name) {
  PyObject *names = frame.code->co_localsplusnames;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i)
    if (utf8(PyTuple_GET_ITEM(names, i)) == name)
      return frame.variables[i];
  return nullptr;
}

/// How many code units lie between the instruction that an observer sees for a call and the one
/// that the frame is at during the call: PRECALL with its cache.
inline constexpr int kCallAfterPrecall = PY_VERSION_HEX < 0x030C0000 ? 2 : 0;

/// Where the value stack starts.
inline const Word<PyObject> *stack_of(const Frame &frame) {
  return frame.variables + frame.code->co_nlocalsplus;
}

} // namespace tracehost::python
