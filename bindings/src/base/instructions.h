#pragma once

#include "base/opcodes.h"

#include <Python.h>

#include <cstdint>
#include <vector>

namespace tracehost::python {

/// One instruction as compiled, with its full argument.
struct Instruction {
  std::int32_t argument = 0;
  std::int32_t start = -1; ///< its first code unit: an EXTENDED_ARG, or itself; -1: no instruction
  std::int16_t depth = -1; ///< values on the stack before it runs; -1: it is never reached
  std::uint8_t opcode = 0;
  bool named = false;   ///< a call, some arguments of which have names
  bool caught = false;  ///< what it raises may be caught by an `except` of the same code
  bool cleaned = false; ///< what it raises runs a `finally` of the same code
  Action action = Action::none;
  std::int16_t kept = 0; ///< values on the stack that a handler around it finds; 0: no handler
};

/// The instructions of a code object, by code unit.
///
/// Problem: an observer learns which instruction comes next, and needs its operands. From Python
/// 3.12 on, the interpreter does not save its stack pointer for an observer. Answer: the depth of
/// the stack before each instruction follows from the code alone, as the compiler computed it. The
/// depth is 0 at the start. Each instruction adds its effect, along each path. At a handler, the
/// exception table gives the depth.
using Instructions = std::vector<Instruction>;

/// Decoded at the first call and kept with the code object; borrowed from it. Null with no error
/// set where that fails. Requires: GIL held.
const Instructions *instructions_of(PyCodeObject *code);

} // namespace tracehost::python
