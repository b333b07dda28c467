#pragma once

#include "environment/environment.h"

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
  Site where;       ///< the line that stores it, when it can be told
};

/// A slot that the body rebound to a tensor, or to a list, tuple or dict with one in it.
struct Rebound {
  std::string path; ///< `self.h`
  Site where;       ///< as SideEffect's
  PyObject *value;  ///< what it holds now; borrowed from the Recorder
  /// What later calls store there, made of outputs of the graph; none: they can't.
  std::optional<OutputSpec> repeated;
};

/// Watches one trace from the outside: which code runs, what it can reach by a path, and what those
/// slots held before any of that code could store to them.
///
/// Problem: which attributes, globals and cells a body reads is known only once its code ran, but
/// the values to publish are those from before. Answer: worklist over (objects reached) x (names
/// that occur in code that ran), extended at the first entry of each code object, before it
/// executes: code that can store a slot names it, so the slot is recorded before the store can
/// happen.
///
/// Requires for every member: GIL held, on the thread that traces.
class Recorder {
public:
  /// `function`: the callable that is traced (function, bound method's function, nn.Module ...).
  /// `roots`: what paths may start from besides it: bound arguments, borrowed for the Recorder's
  /// life. Also walks what is reachable from them already. Runs no user code.
  Recorder(PyObject *function, std::span<const Root> roots, bool watch_values);
  ~Recorder();
  Recorder(const Recorder &) = delete;
  Recorder &operator=(const Recorder &) = delete;

  /// A code object of `frame` is about to run for the first time in this trace, or again (cheap).
  void enter(PyFrameObject *frame);
  void enter_code(PyCodeObject *code, PyObject *globals, PyObject *function_or_null);

  /// Code runs from here on that a node of the graph will run again at each call ...
  void begin_call();
  /// ... this, among others: what it stores is stored again, and what it reads read again.
  void enter_called(PyFrameObject *frame);

  /// The path by which the body can reach this tensor object, or empty when there is none.
  std::string path_of(PyObject *tensor);
  /// Whether the body was given `object`, or reaches it by a path: it did not make it.
  bool reaches(PyObject *object) const;

  /// After the body returned normally, before anything else runs. Compares every recorded slot with
  /// what it holds now, once; the caller says of each what is `repeated`.
  std::span<Rebound> rebound();
  /// Puts back what rebound() slots held before: a request leaves no stand-ins behind.
  void put_back();
  /// After rebound(). `captured`: the tensors that became hidden inputs, in that order.
  /// Sets a Python error and returns null when the trace must be refused: a slot changed though no
  /// code that ran could store it (TraceError: changed by another thread).
  std::shared_ptr<Environment> finish(std::span<PyObject *const> captured,
                                      std::vector<SideEffect> &side_effects);
  /// After finish(): why the trace can serve its own call alone, a sentence; empty: it can't not.
  const std::string &once() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace tracehost::python
