#pragma once

#include "base/frame.h"
#include "base/instructions.h"
#include "observe/c_functions.h"
#include "observe/paths.h"
#include "observe/sides.h"
#include "observe/stores.h"

#include <Python.h>

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// What a call of C code runs.
struct Called {
  std::string_view of, name;    ///< its module or type, and its own name
  bool method = false;          ///< the first argument is `self`
  PyObject *callable = nullptr; ///< a function; null: a method, a type

  std::string path() const; ///< `time.time`
  std::string shown() const { return path() + "()"; }
};

/// Turns each instruction of the body, seen before it runs, into reads and stores of slots.
/// Requires for every member: GIL held, on the thread that traces.
class Reads {
public:
  Reads(Paths &paths, Stores &stores, Sides &sides)
      : paths_(paths), stores_(stores), sides_(sides) {}

  /// Whether the body is in a call of print(), on this thread: what is shown need not be guarded.
  static bool printing();

  /// `called`: of code that a node of the graph calls at each run. Its stores count alone.
  void observe(const Frame &frame, const Instruction &instruction, bool called);

  /// Each once.
  const std::vector<UnknownCall> &unknown_calls() const { return unknown_; }

private:
  using Arguments = std::span<PyObject *const>;
  /// A call of C code that is under way, and where: it looks into what code of Python gives it.
  struct Taker {
    const Frame *frame;
    const std::uint16_t *at;
    PyObject *applied; ///< what it calls with it, borrowed; or null
  };

  void read();
  void read_in_call();
  void store();
  /// An operand of the instruction: 1 is the top of the stack.
  PyObject *operand(int from_top) const { return top_[-from_top]; }
  PyObject *name(int shift = 0) const;
  PyObject *stored(int from_top) const;
  bool is_ours(PyObject *globals);
  void identified(PyObject *object);
  PyObject *variable() const;

  void load_attribute(PyObject *owner, PyObject *name);
  void check_of_autograd(PyObject *tensor, PyObject *name);
  void load_super(PyObject *super, PyObject *name);
  void load_item(PyObject *container, PyObject *key);
  static void check_index(PyObject *list);
  static void check_bounds(PyObject *tensor, PyObject *key);
  void reject_number(const char *what, const char *instead);
  void reject_type();
  void check_identity(PyObject *a, PyObject *b);
  void check_hash(PyObject *object);
  void check_identities(const Called &called, Arguments arguments);
  void check_types(PyObject *a, PyObject *b);
  void check_lookup(PyObject *element, PyObject *container);
  void check_use_of_type(PyObject *object);
  void load_global(PyObject *name);
  void load_cell();
  void contains(PyObject *element, PyObject *container);
  void hashed(PyObject *key);
  void load_local_name();
  void of_context(PyObject *container);
  void asks_class(PyObject *object, std::initializer_list<const char *> names);
  void shown(PyObject *object);
  void load_property(PyObject *owner, PyObject *name);
  void truth(PyObject *value);
  void match_class();
  std::string_view replaces(PyObject *owner, std::string_view name) const;
  void store_attribute(PyObject *owner, PyObject *name, PyObject *value);
  void store_item(PyObject *container, PyObject *key, PyObject *value);
  void store_slice(PyObject *container);
  void delete_item(PyObject *container, PyObject *key);
  void change(PyObject *container, bool rewrites);

  // What a side of an `if` and an attempt may not do: reads_sides.cpp.
  void note_store(Paths::Position at, PyObject *value);
  bool is_joined(Paths::Position at, PyObject *value) const;
  void note_tensor_store(PyObject *name);
  void note_opaque_store(PyObject *object);
  void note_attributes(PyObject *owner);
  void note_unrestored(Paths::Position at, PyObject *dict);
  bool was_there(PyObject *object) const;
  Sides::Kind lost_of(PyObject *object) const;
  Sides::Kind output_of(Rule rule, const Called &called, Arguments arguments) const;
  void note_taken(PyObject *iterator);
  void note_import(PyObject *name);
  void note_call(Rule rule, const Called &called, Arguments arguments);
  std::optional<Sides::Kind> change_of(PyObject *object) const;
  std::optional<Sides::Kind> change_of(Arguments arguments) const;
  bool calls_for_user() const;
  bool has_output(const Called &called, Arguments arguments) const;
  void note_callables(Arguments arguments);
  void note_callable(PyObject *callable);
  void note_impure(Sides::Kind kind, const std::string &what);

  void calls(int names);
  void calls_unpacked();
  void call(PyObject *callable, Arguments arguments);
  void call_c_function(PyObject *callable, Arguments arguments);
  void call_descriptor(PyObject *descriptor, Arguments arguments);
  void call_type(PyTypeObject *type, Arguments arguments);
  void call_object(PyObject *callable, Arguments arguments);
  void call_method(PyObject *self, std::string_view name, Arguments with_self);
  void apply(Rule rule, const Called &called, Arguments arguments);
  bool apply_store(Effect effect, const Called &called, Arguments arguments);
  void note_print(Arguments arguments);
  void apply_read(Effect effect, const Called &called, Arguments arguments);
  bool asks_for_itself() const;
  void ask_again(const Called &called, Arguments arguments);
  void change_by(Effect effect, std::string_view name, PyObject *container, Arguments others);
  void apply_unknown(const Called &called, Arguments arguments);
  bool is_from_outside(PyObject *object, int depth = 0) const;
  void note_outside(const Called &called);
  void note_device(const Called &called);
  bool is_users_device_call(std::string &shown) const;
  std::string called_by_user(const Called &called) const;
  void ask_abstract_class(PyObject *type, PyObject *of);
  void call_cached(PyObject *callable, Arguments arguments);
  void enter(PyObject *manager);
  void call_special(PyObject *owner, const char *special, Arguments arguments);
  void update(PyObject *dict, Arguments others);
  void read_removed(std::string_view name, PyObject *container, PyObject *key);
  void read_contents(Arguments arguments, bool may_store);

  // What is called in the end, and by C code: reads_callables.cpp.
  void call_partial(PyObject *partial, Arguments arguments);
  void call_named(PyObject *caller, Arguments arguments);
  void call_kept(PyObject *callable, PyObject *self, Arguments arguments);
  void call_slot_wrapper(PyObject *wrapper, Arguments arguments);
  void use_getter(PyObject *getter, PyObject *object);
  void use_callables(Effect effect, const Called &called, Arguments arguments);
  void call_with_elements(PyObject *callable, const Called &called, Arguments iterables);
  void call_with_each(PyObject *callable, PyObject *elements, bool unpacks);
  void reduce(Arguments arguments);
  PyObject *follow(PyObject *object, PyObject *names);
  Taker &taker();
  void takes_from(PyObject *iterator);
  void give(PyObject *result);

  Paths &paths_;
  Stores &stores_;
  Sides &sides_;
  std::unordered_map<PyObject *, bool> ours_; ///< dicts of globals, borrowed from frames
  const Frame *frame_ = nullptr;              ///< of the instruction that is handled
  const Instruction *instruction_ = nullptr;
  const Word<PyObject> *top_ = nullptr; ///< one past the last value of its stack
  bool named_ = false;                  ///< a call, some arguments of which have names
  bool out_ = false;                    ///< one of these may be `out`
  bool called_ = false;
  std::unordered_set<PyObject *> attributes_; ///< dicts of objects, read in a side; borrowed
  std::vector<Taker> takers_;
  std::vector<UnknownCall> unknown_;
  static thread_local const Frame *prints_;            ///< the frame that calls print(), or null
  static thread_local const std::uint16_t *prints_at_; ///< where; the frame may be gone since
};

} // namespace tracehost::python
