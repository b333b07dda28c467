#pragma once

#include "event/graph_news.h"
#include "event/optimize.h"
#include "tape/operands.h"

#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tracehost::tape {

/// What runs settled calls where no option says so: TRACEHOST_OPTIMIZE does, else tapes.
Optimize by_default();

/// The tapes of one graph, made as its calls settle: for at most four sets of sizes.
///
/// A tape serves one thread at a time. A thread that finds the tape for its sizes in use runs the
/// interpreter. At its second such call it records a tape of its own, another copy for these sizes.
/// Copies are freed when they have not run for 60 seconds, and a tape in the process is made.
class Tapes {
public:
  /// `interruptible`: called from time to time in a run; it may throw to end the run. `dropped`: so
  /// many outputs, the last, are for nobody: a run leaves them out. `report` receives
  /// taped, no_tape and untaped, each at most once, on the thread of a call. Empty: nobody asks.
  Tapes(const torch::jit::Graph &graph, void (*interruptible)(), std::size_t dropped = 0,
        std::function<void(const GraphNews &)> report = {});
  ~Tapes();
  /// Hot. Runs a call by a tape. False: none serves it, and `operands` has the inputs as before.
  /// Throws what `interruptible` throws, and nothing else; grad mode is then as before. Any thread.
  bool run(Operands &operands);
  /// What serves: `a tape + 3 regions (41 of 43 ops)`, or `the interpreter`, and why.
  std::string describe() const;
  /// Tapes that are there now, copies for threads among them.
  std::size_t count() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tracehost::tape
