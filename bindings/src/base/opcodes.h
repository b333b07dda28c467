#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

/// What each instruction of CPython may read or store outside of the frame that executes it.

namespace tracehost::python {

/// What an instruction does to objects that it did not make. The comment gives its operands, the
/// top of the stack last.
enum class Action : std::uint8_t {
  unknown,         ///< not in the table: this Python can't be observed
  none,            ///< only moves values, makes new ones, or runs code that is observed itself
  load_attribute,  ///< owner
  store_attribute, ///< owner, last
  load_super,      ///< super, class, self
  load_global,
  store_global,
  load_name, ///< the frame's locals, then as load_global
  store_name,
  load_cell,
  store_cell,
  load_item,     ///< container, key
  load_slice,    ///< container, start, stop
  store_item,    ///< value, container, key
  store_slice,   ///< value, container, start, stop
  delete_item,   ///< container, key
  iterate,       ///< an iterable, all of which is read
  take,          ///< the same, and an iterator is behind its last element then
  next,          ///< an iterator, from which one element is taken
  contains,      ///< element, container
  identify,      ///< two operands: are they one object
  compare,       ///< two operands, all of each
  operate,       ///< two operands, all of each; the first may be changed in place
  truth,         ///< value
  length,        ///< value
  format,        ///< value, all of it
  format_second, ///< value, specification
  hash,          ///< an element of a set
  hash_second,   ///< key, value
  hash_all,      ///< elements of a set
  hash_keys,     ///< keys and values in turn
  match_keys,    ///< dict, keys
  match_class,   ///< subject, class, names
  call,
  call_names, ///< as call, with a tuple of names above the arguments
  call_unpacked,
  enter, ///< a `with`: the manager is on top
  import_name,
  import_from, ///< module
  give,        ///< value, to the caller
};

/// A row for each opcode of this Python, by number.
struct Opcodes {
  std::array<Action, 256> action;
  std::array<std::uint8_t, 256> caches; ///< code units that follow the instruction
  std::array<bool, 256> jumps, backwards, ends, deletes;
  int extended;
  int names;   ///< KW_NAMES, or -1
  int special; ///< LOAD_SPECIAL, or -1
  int binary;  ///< BINARY_OP
  int check_match, check_group, reraise, with_start, pop_top, push_exception; ///< of handlers
};

/// Made at the first call, from `opcode.opmap`. Requires: GIL held.
const Opcodes &opcodes();

/// Names of this Python's opcodes that have an action.
std::vector<std::string> observed_opcodes();
/// Takes an opcode's action away, or gives it back; false: there is no such opcode. For tests. Code
/// that has been decoded stays as it was.
bool switch_opcode(const std::string &name, bool on);

/// Names of this Python's opcodes that the table lacks; empty is what it must be.
std::string opcodes_unknown();

} // namespace tracehost::python
