#pragma once

#include "event/graph_news.h"
#include "event/optimize.h"
#include "program/checks.h"
#include "tape/operands.h"

#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace tracehost {

namespace capture {
class Pools;
}

/// An op of a graph has failed, at take_failed_at(). All is as it was before the call.
struct OpFailed {
  std::exception_ptr error; ///< what the op threw
};

/// How a graph is prepared and run.
struct ProgramOptions {
  /// Ops that compute the same become one (merge.h). Requires: no gradient is ever asked of a run,
  /// as it would be summed in another order.
  bool merges = false;
  /// It may change what was there before the run.
  bool changes = true;
  Optimize optimize = Optimize::off;
  bool on_device = false; ///< an input lies on a device other than the CPU
  /// Memory that CUDA graphs share with those of the Function's other Programs; null: they don't.
  std::shared_ptr<capture::Pools> pools = nullptr;
  /// Receives what happens to tapes and CUDA graphs. Any thread, without a lock. Empty: nobody
  /// asks.
  std::function<void(const GraphNews &)> on_graph = {};
  /// Inputs past these are tensors that the body reaches; by default there are none.
  std::size_t arguments = std::numeric_limits<std::size_t>::max();
};

/// A runnable graph. What it computes never changes; may run on several threads at once.
class Program {
public:
  /// Takes over `graph` and prepares it: tracehost's passes, then bytecode. `outputs`: how many of
  /// the graph's outputs are the body's; those past them are computed and dropped.
  Program(std::shared_ptr<torch::jit::Graph> graph, const std::string &name, std::size_t outputs,
          ProgramOptions options = {});
  ~Program();

  /// Consumes the inputs and leaves the outputs. If an op fails, throws what the op
  /// threw (eager's type and message), and take_failed_at() returns the user's line. Grad mode is
  /// then as before the run; tensors that ops wrote stay written. A check that fails throws
  /// CheckFailed, and the run has no effect (undo.h). Any run restores the other modes of the
  /// thread that nodes switch (modes.h).
  void run(Operands &operands) const;
  void run(torch::jit::Stack &stack) const; ///< owned inputs

  /// As run(), but throws OpFailed where an op fails and the run has changed nothing, or can undo
  /// its changes. The body can then run in its place: it raises the exception, or catches it.
  void run_or_undo(Operands &operands) const;

  const Checks &checks() const;
  /// Hot. Whether the checks at the graph's start hold for these inputs: run() would not throw a
  /// CheckFailed there.
  bool checks_hold(c10::ArrayRef<c10::IValue> inputs) const;

  std::size_t ops() const;   ///< nodes but constants
  std::size_t bytes() const; ///< that it takes, roughly; the tensors that are constants included
  /// Runs without the GIL: many ops, other modes, a device other than CPU, or backward.
  bool long_running() const;
  bool runs_engine() const;  ///< it has a backward pass, which reads and writes `.grad`s
  bool calls_python() const; ///< by a py_function: it runs in this process only
  /// What runs settled calls: `a tape + 3 regions (41 of 43 ops)`, `a CUDA graph (41 ops)`, `the
  /// interpreter: aten::rand draws`. Empty: it does not optimize.
  std::string runs_by() const;
  const torch::jit::Graph &graph() const;
  std::shared_ptr<torch::jit::Graph> copy_graph() const;

  /// The user's line of the op that made run() throw last on this thread, `net.py:12`; empty when
  /// none did since this was asked, or it is not known.
  static std::string take_failed_at();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tracehost
