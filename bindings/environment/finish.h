#pragma once

#include "environment/recorder.h"
#include "environment/walker.h"

#include <Python.h>

#include <memory>
#include <span>
#include <vector>

namespace tracehost::python {

/// The code that ran during a trace.
struct Ran {
  std::span<PyCodeObject *const> body;
  std::span<PyCodeObject *const> called; ///< by nodes of the graph, so that it runs again
  bool calls; ///< there are such nodes; what they call may have no Python code
};

/// What became of the slots while the body ran, and the Environment made of those that can be
/// watched.
///
/// Unchanged slots are watched. A changed one that code can store to is a side effect, or refused
/// if it now holds a tensor: a later call would not repeat that. Where a capture's path goes
/// through a changed slot, its value from before stays watched, so that a later call sees the
/// difference. What code stores that the graph calls is stored again by each run.
///
/// A slot that holds what a lifted block made (init_scope) would never again be as this trace found
/// it, unless somebody takes the thing away again; then it has to be made again: such a trace
/// serves once.
class Finish {
public:
  Finish(Walker &walker, const Ran &ran, std::span<PyObject *const> captured);

  /// Null with an error set if the trace must be refused.
  std::shared_ptr<Environment> run(bool watch_values, std::vector<SideEffect> &side_effects);

  /// After run(): the path of a slot that holds what a lifted block made; empty: none does.
  const std::string &lifted_into() const { return lifted_into_; }

private:
  void mark_captures();
  bool inspect(int container);
  bool inspect_dict(int container, PyObject *dict);
  bool changed(int container, Slot *slot, PyObject *key, PyObject *now);
  bool refuse_tensor(const std::string &path, const Site &where);
  void drop_below();
  std::shared_ptr<Environment> environment(bool watch_values);

  Walker &walker_;
  Graph &graph_;
  const Ran ran_;
  std::span<PyObject *const> captured_;
  std::vector<PyObject *> held_; ///< captures without a path; else null
  std::vector<SideEffect> effects_;
  std::vector<SideEffect> gone_; ///< of attributes that are there no more
  std::string lifted_into_;
  std::vector<bool> dropped_; ///< objects whose path goes through a slot that is given up
};

} // namespace tracehost::python
