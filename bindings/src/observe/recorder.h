#pragma once

#include "base/frame.h"
#include "base/instructions.h"
#include "guards/guards.h"
#include "observe/c_functions.h"

#include <Python.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tracehost::python {

/// A Python value rebound by the body during the trace: it changes at the trace only.
struct SideEffect {
  std::string path; ///< `self.count`
  Site where;       ///< the line that stores it, when it is known
};

/// A slot that the body emptied, or rebound to a tensor, None, a number or a string. A list, tuple
/// or dict of such counts as one.
struct Rebound {
  std::string path; ///< `self.h`
  Site where;       ///< as SideEffect's
  PyObject *value;  ///< what it holds now; borrowed from the Recorder. Null: nothing
  /// What later calls store there, made of outputs of the graph; none: they can't.
  std::optional<OutputSpec> repeated;
};

class TraceHistory;
class Stores;

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
  ~Recorder();
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// The code of `frame` is about to run.
  void enter(PyFrameObject *frame);
  /// An instruction of it is about to run, `unit` its code unit: it, if it may read or store
  /// something from before; or null.
  const Instruction *coming(const Frame &frame, int unit);
  /// What coming() gave reads and stores. `called`: a node of the graph will run it again at each
  /// call, so that what it stores is stored again, and what it reads read again.
  void observe(const Frame &frame, const Instruction &instruction, bool called);
  /// There are such nodes; what they call may have no Python code.
  void begin_call();
  /// Instructions were not seen, a sentence why: the trace can serve its own call alone.
  void missed(std::string why);

  /// The body did what no later call can, in words that follow "the body".
  void serves_once(std::string what);

  /// The body has ended, by a result or an exception: slots that it only read hold again what they
  /// held before.
  void body_ended();
  /// Whether the tensor is a graph's input for a slot that holds a number.
  bool gives(PyObject *tensor) const;

  /// Tensors with a path that the body asked for their metadata: dtype, shape, device ...
  const std::vector<PyObject *> &asked() const;
  /// The path by which the body can reach this tensor object, or empty when there is none.
  std::string path_of(PyObject *tensor);
  /// Whether the body was given `object`, or reaches it by a path: it did not make it.
  bool reaches(PyObject *object) const;
  /// Whether a variable of an enclosing function holds `object`, also before the body reads it.
  bool is_enclosed(PyObject *object) const;

  /// After the body returned normally, before anything else runs. Compares every recorded slot with
  /// what it holds now, once; the caller says of each what is `repeated`.
  std::span<Rebound> rebound();
  /// Instead of rebound(), or after it: restores the slots that got a tensor without data, of a
  /// class that `is_it` knows. Returns the path and line of the first such store, or empty.
  std::string take_back(bool (*is_it)(PyObject *));
  /// For staged blocks.
  Stores &stores();
  /// Null for a request.
  TraceHistory *history();
  /// Puts numbers in place of those of the graph that the body has stored, or made keys of dicts.
  /// Requires: paused.
  void replace_numbers();
  /// Stores `value` in the slot in place of what the body stored there.
  void replace(const Rebound &rebound, PyObject *value);
  /// Restores what rebound() slots held before: a request leaves no fake tensors behind.
  void put_back();
  /// After rebound(). `captured`: the tensors that became hidden inputs, in that order.
  /// `handed_out`: objects that it reaches and the result holds.
  std::shared_ptr<Guards> finish(std::span<PyObject *const> captured,
                                 std::span<PyObject *const> handed_out,
                                 std::vector<SideEffect> &side_effects);
  /// Calls of C code that is not in the table of c_functions.h.
  const std::vector<UnknownCall> &unknown_calls() const;
  /// After finish(): why the trace can serve its own call alone, a sentence. Empty if it may be
  /// reused.
  const std::string &once() const;
  /// Paths::absent.
  const std::unordered_set<PyObject *> &absent() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tracehost::python
