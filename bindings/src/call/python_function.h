#pragma once

#include "base/object.h"
#include "call/argument_containers.h"
#include "call/declaration.h"
#include "function/function.h"
#include "guards/graph_guards.h"
#include "guards/trace_history.h"
#include "hooks/callbacks.h"
#include "pytree/binder.h"

#include <Python.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

/// What lives as long as a Function: its callable, its cache, and the Python side of each
/// Specialization. Requires for all: GIL held.

namespace tracehost::python {

/// What a Python Function is made of, besides the core's cache.
struct PythonFunction {
  Owned callable;     ///< what the user wrote
  PyObject *function; ///< of Python, to which it leads; borrowed; null: none
  Owned code;         ///< of function, when it was traced
  std::string name;   ///< for messages: `step (train.py:12)`
  Binder binder;
  std::shared_ptr<const Parameters> parameters;
  bool watch;                    ///< Python values that the trace read are part of the signature
  bool traces_reads = true;      ///< else value_reads="error"
  Stance stance = Stance::trace; ///< of its calls, where the process and the thread leave it open
  bool autograph = true;         ///< control flow on tensors becomes the graph's
  bool takes_arrays = false;     ///< it was called with numpy's: converted before the look-up
  TraceHistory history;          ///< of earlier traces
  std::unordered_set<std::string> warned;   ///< what warnings have named: each once
  std::unique_ptr<Declaration> declaration; ///< null: no input_signature
  Owned instance;                           ///< a weak reference: a method's, of one instance
  std::unique_ptr<FunctionCore> core;
  /// The ConcreteFunctions of live Specializations (concrete/concrete.h). They do not refer to
  /// this.
  std::vector<std::pair<SpecializationRef, Owned>> concrete;

  PythonFunction(PyObject *callable, PyObject *parameters, PyObject *empty);
  /// Whether the body has other code than its graphs: `body.__code__ = ...`, IPython's %autoreload.
  bool has_new_code() const { return function && PyFunction_GET_CODE(function) != code.get(); }
  /// Drops the graphs of the old code. Throws TraceError if the new code has other parameters.
  void take_new_code();
  /// The instance that this Function belongs to, borrowed; null: none, or it is gone.
  PyObject *bound_to() const;
  /// Drops the ConcreteFunctions of evicted Specializations.
  void drop_evicted();
  /// For the garbage collector: the ConcreteFunctions, and what live Specializations refer to.
  int traverse_specializations(visitproc visit, void *arg) const;
};

/// For the garbage collector: each strong reference of a Specialization once.
int traverse_specialization(const Specialization &specialization, visitproc visit, void *arg);

/// Runs its Program, without the GIL where the Specialization says so.
void run_program(const Specialization &specialization, Operands &operands);

/// A Specialization's Python side.
struct PythonState final : FrontEndState {
  std::shared_ptr<GraphGuards> guards;
  std::size_t roots = 0;              ///< objects among the arguments
  std::vector<TensorMeta> outputs;    ///< of the traced result's tensors
  OwnedContainerUses containers;      ///< of the arguments; null: there are none
  std::vector<OutputSpec> stored;     ///< what a run stores: trees from 1 on (RunValues)
  std::vector<PyObject *> absent;     ///< attributes that no tensor argument has; live for good
  bool runs_code = false;             ///< verifying it may run a user's `==`
  bool does_more = false;             ///< a run stores, or finds objects for its result
  std::size_t containers_reached = 0; ///< of guards->handed_out(): the last ones
  std::size_t captures = 0; ///< hidden inputs; those past them are arguments reached by a path, too
  std::vector<const PythonCallback *> calls; ///< of the Program, which owns them

  // Whether a run pays for dropping the GIL (docs/internals/call-path.md): measured over the first
  // few hits.
  static constexpr std::int8_t kMeasured = 4;
  std::atomic<std::int8_t> measured{0};
  std::atomic<std::int64_t> least_ns{std::numeric_limits<std::int64_t>::max()};
  std::atomic<bool> slow{true};
};

} // namespace tracehost::python
