#pragma once

#include <Python.h>

#include <cstdint>

/// The frame of Python 3.12 and 3.13: `_PyInterpreterFrame`.

namespace tracehost::python {

/// A word of a frame that holds an object.
template <class T> using Word = T *;

struct Frame {
  PyCodeObject *code;
  Frame *previous;
  PyObject *function;
  PyObject *globals, *builtins, *locals;
  PyFrameObject *object;
  std::uint16_t *before; ///< the instruction that runs
  int stack_top;
  std::uint16_t return_offset;
  char owner;
  PyObject *variables[1]; ///< locals, cells, free variables; then the value stack
};

/// Whether the frame is one without code, which C code puts between two others.
inline bool is_empty(const Frame &frame) { return frame.owner == 3; }

/// Whether the interpreter agrees on the number of values on the stack: it does not save the
/// number.
inline bool is_depth(const Frame &, int) { return true; }

} // namespace tracehost::python
