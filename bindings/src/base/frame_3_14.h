#pragma once

#include <Python.h>

#include <cstdint>

/// The frame of Python 3.14: `_PyInterpreterFrame`.

namespace tracehost::python {

/// A word of a frame that holds an object: `_PyStackRef`. Its two lowest bits are no part of the
/// address. 1: the word has no reference of its own. 3: the word is an int, and holds no object.
template <class T> class Word {
public:
  /// Borrowed; null: no object.
  T *get() const {
    return (bits_ & 3) == 3 ? nullptr : reinterpret_cast<T *>(bits_ & ~std::uintptr_t{3});
  }
  operator T *() const { return get(); }
  T *operator->() const { return get(); }

private:
  std::uintptr_t bits_;
};

struct Frame {
  Word<PyCodeObject> code;
  Frame *previous;
  Word<PyObject> function;
  PyObject *globals, *builtins, *locals;
  PyFrameObject *object;
  std::uint16_t *before; ///< the instruction that runs
  Word<PyObject> *stack_end;
  std::uint16_t return_offset;
  char owner;
  std::uint8_t visited;
  Word<PyObject> variables[1]; ///< locals, cells, free variables; then the value stack
};

/// Whether the frame is one without code, which C code puts between two others.
inline bool is_empty(const Frame &frame) { return frame.owner >= 3; }

/// Whether the interpreter agrees on the number of values on the stack.
inline bool is_depth(const Frame &frame, int depth) {
  return frame.stack_end == frame.variables + frame.code->co_nlocalsplus + depth;
}

} // namespace tracehost::python
