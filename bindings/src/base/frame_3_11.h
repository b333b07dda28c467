#pragma once

#include <Python.h>

#include <cstdint>

/// The frame of Python 3.11: `_PyInterpreterFrame`.

namespace tracehost::python {

/// A word of a frame that holds an object.
template <class T> using Word = T *;

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

/// Whether the frame is one without code, which C code puts between two others: there is none.
inline bool is_empty(const Frame &) { return false; }

/// Whether the interpreter agrees on the number of values on the stack.
inline bool is_depth(const Frame &frame, int depth) {
  return frame.stack_top == frame.code->co_nlocalsplus + depth;
}

} // namespace tracehost::python
