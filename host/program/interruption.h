#pragma once

#include "tape/temporary_nodes.h"
#include "tracehost/error.h"

#include <torch/csrc/jit/ir/ir.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stop_token>

/// Ctrl-C ends a run of a graph between two ops, as it ends eager code.
///
/// Problem: the interpreter of graphs knows no signals, and a run may take hours. Answer: the
/// bytecode, not the graph, has an op that asks from time to time: at each turn of a loop, and
/// after every few ops of a long block. Every program has such ops, because a signal may also end a
/// graph of an archive, in a process without Python.

namespace tracehost {

/// Asks for signals; throws to end the run. Runs on any thread, at most every 100 ms on each.
/// Null, as without Python: nobody is asked.
void set_interruption_check(void (*check)());

/// What the op does: asks, and throws EndRun or what the check throws to end the run.
void ask_for_interruption();

/// For a scope: this thread's runs do not ask. For one that is not the call itself.
class Uninterrupted {
public:
  explicit Uninterrupted(bool active) noexcept;
  ~Uninterrupted();
  Uninterrupted(const Uninterrupted &) = delete;
  Uninterrupted &operator=(const Uninterrupted &) = delete;

private:
  const bool outer_;
};

/// Whether the check has thrown on this thread since this was asked.
bool take_signalled();

/// Ends the runs in Interruptible scopes of all threads. Safe in a signal's handler.
void interrupt_runs() noexcept;

/// What ends one call alone.
struct RunLimits {
  std::stop_token stop = {};
  std::optional<std::chrono::steady_clock::time_point> deadline = {};

  /// The one that asks now for an end.
  std::optional<ErrorCode> reached() const;
};

/// A call that interrupt_runs() ends, if it comes while this lives, and that `limits` end:
/// Program::run() throws Interrupted where a check stands. For calls from C++; Python's have their
/// own signals. A call within another one ends with it.
class Interruptible {
public:
  /// `limits`: null, or outlives this.
  explicit Interruptible(const RunLimits *limits) noexcept;
  ~Interruptible();
  Interruptible(const Interruptible &) = delete;
  Interruptible &operator=(const Interruptible &) = delete;

  /// Throws Interrupted where this thread's call is asked to end; it has changed nothing yet.
  static void check_before();

private:
  friend void ask_for_interruption();
  std::optional<ErrorCode> reached() const;

  static thread_local const Interruptible *innermost;
  const Interruptible *const outer_;
  const RunLimits *const limits_;
  const std::uint64_t begun_; ///< interruptions when the outermost one began
};

/// What the op throws, for Program alone. No std::exception, as FailedCheck.
struct EndRun {
  ErrorCode why;
};

/// The ops that ask, in the graph for a scope: while its bytecode is made.
class InterruptionChecks {
public:
  explicit InterruptionChecks(torch::jit::Graph &graph);

private:
  void insert(torch::jit::Block &block, bool loop);

  TemporaryNodes nodes_;
};

} // namespace tracehost
