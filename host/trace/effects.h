#pragma once

#include "trace/saves.h"
#include "trace/tracer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <string>
#include <vector>

namespace tracehost::trace {

class Trace;

/// What the body changes so far, and whether a check or an op that fails can take that back.
///
///     w.add_(1)          a save of w's values: a check behind it restores them
///     net.resize_(3)     nothing can undo that: a check behind it is unsupported (`first`)
class Effects {
public:
  explicit Effects(Trace &trace) : trace_(trace) {}

  /// Something is about to change that a graph cannot undo.
  void note(const std::string &what);
  /// An op of the body is about to run: saves what it changes, or notes it.
  void note_op(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  /// Some values make the op raise that is about to run. In a `try`, a later call may not raise.
  void note_raising(const std::string &op);
  /// What is recorded now may raise. In a loop it may do so behind effects of earlier iterations.
  void note_raise();
  /// Whether a run that fails here has changed nothing that it does not save.
  bool undoable() const;
  /// After the body: writes what the effects are into the result, and takes out needless saves.
  void close();

  std::string first; ///< the first change that can't be undone: `aten::resize_ at net.py:12`
  Saves saves;       ///< of what can be taken back

private:
  void note_draw(const c10::OperatorHandle &op, const torch::jit::Stack &stack);

  Trace &trace_;
  std::vector<NotedLine> caught_; ///< see Traced::caught
};

} // namespace tracehost::trace
