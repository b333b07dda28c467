#pragma once

#include "base/object.h"

#include <Python.h>

#include <cstdint>
#include <string_view>

/// A running frame as the interpreter has it: its variables and its value stack. The layout is
/// fixed within a minor version of Python; where versions differ, the difference is here.

namespace tracehost::python {

#if PY_VERSION_HEX < 0x030C0000
/// `_PyInterpreterFrame` of 3.11.
struct Frame {
  PyObject *function;
  PyObject *globals, *builtins, *locals;
  PyCodeObject *code;
  PyFrameObject *object;
  Frame *previous;
  std::uint16_t *before; ///< the instruction that runs
  int stack_top;
  bool is_entry;
  char owner;
  PyObject *variables[1]; ///< locals, cells, free variables; then the value stack
};
#else
/// `_PyInterpreterFrame` of 3.12 and 3.13.
struct Frame {
  PyCodeObject *code;
  Frame *previous;
  PyObject *function;
  PyObject *globals, *builtins, *locals;
  PyFrameObject *object;
  std::uint16_t *before;
  int stack_top;
  std::uint16_t return_offset;
  char owner;
  PyObject *variables[1];
};
#endif

/// How `CALL` finds what is called: below its arguments lie two words. 3.13 has the callable first,
/// then `self` or null; before that null or the method, then the callable or `self`.
inline constexpr bool kCallableFirst = PY_VERSION_HEX >= 0x030D0000;

/// Bits of LOAD_ATTR's argument below the index of the name.
inline constexpr int kAttributeShift = PY_VERSION_HEX >= 0x030C0000 ? 1 : 0;

/// What the stack of a generator holds when it starts.
inline constexpr int kGeneratorDepth = PY_VERSION_HEX >= 0x030D0000 ? 0 : 1;

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

/// The code unit that a frame is at.
inline int unit_of(const Frame &frame) {
  return static_cast<int>(frame.before -
                          reinterpret_cast<std::uint16_t *>(frame.code->co_code_adaptive));
}

/// The frame of Python code that called, itself or by C code; null: none.
inline const Frame *caller_of(const Frame &frame) {
  const Frame *caller = frame.previous;
#if PY_VERSION_HEX >= 0x030C0000
  constexpr char kOwnedByC = 3; // C code puts an empty frame between
  while (caller && caller->owner == kOwnedByC)
    caller = caller->previous;
#endif
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
inline PyObject *const *stack_of(const Frame &frame) {
  return frame.variables + frame.code->co_nlocalsplus;
}

/// Whether the interpreter agrees on the number of values on the stack. 3.11 saves it, newer ones
/// do not.
inline bool is_depth(const Frame &frame, int depth) {
  return PY_VERSION_HEX >= 0x030C0000 || frame.stack_top == frame.code->co_nlocalsplus + depth;
}

} // namespace tracehost::python
