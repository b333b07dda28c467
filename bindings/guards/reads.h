#pragma once

#include "guards/frame.h"
#include "guards/instructions.h"
#include "guards/paths.h"
#include "guards/stores.h"

#include <Python.h>

#include <span>
#include <string_view>
#include <unordered_map>

namespace tracehost::python {

/// Turns each instruction of the body, seen before it runs, into reads and stores of slots.
/// Requires for every member: GIL held, on the thread that traces.
class Reads {
public:
  Reads(Paths &paths, Stores &stores) : paths_(paths), stores_(stores) {}

  /// Whether the body is in a call of print(), on this thread: what is shown need not be guarded.
  static bool printing() { return prints_; }

  /// `called`: of code that a node of the graph calls at each run. Its stores count alone.
  void observe(const Frame &frame, const Instruction &instruction, bool called);

private:
  using Arguments = std::span<PyObject *const>;

  void read();
  void store();
  /// An operand of the instruction: 1 is the top of the stack.
  PyObject *operand(int from_top) const { return top_[-from_top]; }
  PyObject *name(int shift = 0) const;
  bool is_ours(PyObject *globals);
  PyObject *variable() const;

  void load_attribute(PyObject *owner, PyObject *name);
  void load_super(PyObject *super, PyObject *name);
  void load_item(PyObject *container, PyObject *key);
  void load_global(PyObject *name);
  void load_cell();
  void contains(PyObject *element, PyObject *container);
  void operate();
  void truth(PyObject *value);
  void match_class();
  void store_attribute(PyObject *owner, PyObject *name);
  void store_item(PyObject *container, PyObject *key);
  void delete_item(PyObject *container, PyObject *key);
  void change(PyObject *container, bool moves);

  void calls(int names);
  void calls_unpacked();
  void call(PyObject *callable, Arguments arguments);
  void call_named(std::string_view name, Arguments arguments);
  void ask_again(PyObject *callable, PyObject *self);
  void ask_abstract_class(PyObject *type, PyObject *of);
  void call_kept(PyObject *callable, PyObject *self, Arguments arguments);
  void call_cached(PyObject *callable, Arguments arguments);
  void call_special(PyObject *owner, const char *special, Arguments arguments);
  bool call_method(std::string_view name, Arguments arguments);
  void pop(PyObject *container, PyObject *key);
  void use_getter(PyObject *getter, PyObject *object);
  void call_unknown(Arguments arguments, bool may_store);

  Paths &paths_;
  Stores &stores_;
  std::unordered_map<PyObject *, bool> ours_; ///< dicts of globals, borrowed from frames
  const Frame *frame_ = nullptr;              ///< of the instruction that is handled
  const Instruction *instruction_ = nullptr;
  PyObject *const *top_ = nullptr; ///< one past the last value of its stack
  bool called_ = false;
  static thread_local const void *prints_; ///< the frame that calls print(), or null
};

} // namespace tracehost::python
