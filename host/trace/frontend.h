#pragma once

#include "event/event.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace tracehost::trace {

/// Why a trace can't be right.
enum class Rejection {
  value_read, ///< the body reads a traced tensor's value
  capture,    ///< a tensor whose origin no later call could repeat
  staging,    ///< control flow on tensors that can't become a part of the graph
  trace,      ///< everything else that is not recorded
  limit,      ///< a value beyond those that the Function keeps graphs for
};

/// A step of the body's code; equal only while one call of C code lasts.
struct Instruction {
  const void *frame = nullptr;
  int offset = 0;
  bool operator==(const Instruction &) const = default;
};

/// What a trace asks of the front end that runs the body: Python's bindings, or a fake in tests.
class Frontend {
public:
  virtual ~Frontend() = default;

  /// The user's line that runs now; the last known one if the current line is unknown.
  virtual Site here() = 0;

  virtual Instruction instruction() { return {}; }

  /// The user's line that may catch what an op raises that runs now; line 0: none.
  virtual Site catches() { return {}; }

  /// Whether the body does anything where an op raises that runs now, or has stored anything by
  /// then that is no tensor's data.
  virtual bool acts_on_raise() { return false; }

  /// Why a condition on the user's line that runs now is no part of the graph, a sentence without a
  /// full stop; empty if nothing is known.
  virtual std::string why_not_staged() { return {}; }

  /// The path by which later calls reach `tensor`, which existed before the trace and which no
  /// recorded op made. A text for messages if the tensor has no path; then it is held. Calls
  /// `reject()` for a tensor that was born during the trace.
  virtual std::string capture_path(const at::Tensor &tensor) = 0;

  /// The path by which the body may reach `tensor` besides; empty: none.
  virtual std::string path_of(const at::Tensor & /*tensor*/) { return {}; }

  /// Whether a read of a value gives a traced number (numbers.h), or checks the value; else it
  /// raises.
  virtual bool traces_reads() const { return true; }

  /// A trace can't be right, for the reason `why`, at here(). Whether the body continues without
  /// being recorded, from that place on.
  virtual bool goes_on(Rejection /*why*/) { return false; }

  /// The graph is right for this call alone: the body did `what`. Whether the front end then serves
  /// the call and keeps no graph. Requires: a call, and with data.
  virtual bool serves_once(const std::string & /*what*/) { return false; }

  /// Whether the whole body runs without data. Then ops run on the fake tensor of each tensor that
  /// has some, and change nothing.
  virtual bool without_data() const { return false; }

  /// Runs `wait`, which may block, and gives up the front end's own lock for as long: a thread that
  /// it waits for may want that lock. `wait` must not need the lock.
  virtual void blocking(const std::function<void()> &wait) { wait(); }

  /// Throws the front end's exception for an unsupported program; `message` holds the line already.
  [[noreturn]] virtual void reject(Rejection why, const std::string &message) = 0;
};

} // namespace tracehost::trace
