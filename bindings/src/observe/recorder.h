#pragma once

#include "base/frame.h"
#include "base/instructions.h"
#include "base/object.h"
#include "guards/graph_guards.h"
#include "observe/c_functions.h"
#include "observe/changes.h"
#include "observe/paths.h"
#include "observe/reads.h"
#include "observe/sides.h"
#include "observe/stores.h"

#include <Python.h>

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// Watches one trace: what the body reads and stores of what was there before.
///
/// Problem: which attributes, globals and cells a body reads is known only while it runs, and the
/// values to publish are those from before. Answer: each instruction is seen before it runs
/// (observe/observer.h), with its operands. A read of an object that has a path (observe/paths.h)
/// records a slot with what is there; so does a store, before it happens.
///
/// Requires for every member: GIL held, on the thread that traces.
class Recorder {
public:
  /// `function`: the callable that is traced (function, bound method's function, nn.Module ...).
  /// `roots`: what paths may start from besides it: bound arguments. `tensors`: those among or in
  /// the arguments. Both are borrowed for the Recorder's life. `history`: numbers that earlier
  /// traces found, to which this one adds; null: no number becomes an input. Runs no user code.
  Recorder(PyObject *function, std::span<const Root> roots, std::span<PyObject *const> tensors,
           bool watch_values, TraceHistory *history = nullptr);
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// The code of `frame` is about to run.
  void enter(const Frame &frame);
  /// An instruction of it is about to run, `unit` its code unit: it, if it may read or store
  /// something from before; or null.
  const Instruction *coming(const Frame &frame, int unit);
  /// What coming() gave reads and stores. `called`: a node of the graph will run it again at each
  /// call, so that what it stores is stored again, and what it reads read again.
  void observe(const Frame &frame, const Instruction &instruction, bool called);
  /// There are such nodes; what they call may have no Python code.
  void begin_call() { calls_ = true; }
  /// Instructions were not seen, a sentence why: the trace can serve its own call alone.
  void missed(std::string why);
  Owned interrupt; ///< what a signal has raised while the profile function was set, or null

  /// The objects that the body reaches, and what it was seen to read of them.
  Paths &paths() { return paths_; }
  /// For staged blocks.
  Stores &stores() { return stores_; }
  Sides &sides() { return sides_; }
  /// Null for a request.
  TraceHistory *history() { return history_; }
  /// Calls of C code that is not in the table of c_functions.h.
  const std::vector<UnknownCall> &unknown_calls() const { return reads_.unknown_calls(); }

  /// After the body returned normally, before anything else runs. Compares every recorded slot with
  /// what it holds now, once; the caller says of each what is `repeated`.
  std::span<Rebound> rebound();
  /// What rebound() has returned.
  std::span<Rebound> rebound_so_far() { return rebound_; }
  /// Instead of rebound(), or after it: restores the slots that got a fake tensor. Returns the path
  /// and line of the first such store, or empty.
  std::string take_back();
  /// Puts numbers in place of those of the graph that the body has stored, or made keys of dicts.
  /// Requires: paused.
  void replace_numbers();
  /// Stores `value` in the slot in place of what the body stored there.
  void replace(const Rebound &rebound, PyObject *value);
  /// Restores what rebound() slots held before: a request leaves no fake tensors behind.
  void restore();
  /// After rebound(). `captured`: the tensors that became hidden inputs, in that order.
  /// `handed_out`: objects that it reaches and the result holds.
  std::shared_ptr<GraphGuards> finish(std::span<PyObject *const> captured,
                                      std::span<PyObject *const> handed_out,
                                      std::vector<SideEffect> &side_effects);
  /// After finish(): why the trace can serve its own call alone, a sentence. Empty if it may be
  /// reused.
  const std::string &once() const { return once_; }

private:
  /// What autograph has made of the user's code.
  struct UsersCode {
    Owned ran, users; ///< code objects
    bool generated;   ///< a part that an operator runs: its variables are the function's own
  };
  const UsersCode &users_code(PyCodeObject *code);
  void mark_replaced();
  bool mark_replaced(const Slot &slot);
  void mark_replaced(const Slot &slot, PyObject *now);
  void note_numbers();
  void start(PyObject *callable);
  void function(PyObject *function);
  void enter_library(const Frame &frame);
  void method(const Frame &frame, PyCodeObject *code);

  Paths paths_;
  TraceHistory *history_;
  Stores stores_{paths_};
  Sides sides_;
  Reads reads_{paths_, stores_, sides_};
  const bool watch_values_;
  std::unordered_map<PyObject *, Owned> functions_; ///< seen running
  std::unordered_map<PyObject *, UsersCode> codes_; ///< by the code object that ran
  std::unordered_set<PyObject *> made_; ///< code constants of these: functions of theirs may be
                                        ///< made by the body, then their cells are too
  bool calls_ = false;                  ///< the graph calls code
  Owned at_code_; ///< where the instruction seen last is; held, as it keeps `instructions_`
  const Instructions *instructions_ = nullptr; ///< of that code
  const Frame *at_frame_ = nullptr;
  int at_start_ = -1;
  std::vector<Change> changes_;
  std::vector<Rebound> rebound_;
  std::string missed_, once_;
};

} // namespace tracehost::python
