#pragma once

#include "program/modes.h"
#include "shapes/without_data.h"
#include "trace/frontend.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <optional>
#include <string>

namespace tracehost::trace {

/// The modes of a thread that code can switch in a block. Those of a graph so far are what its
/// nodes up to here, run in order, would leave set.
struct ThreadModes {
  bool grad = true;
  bool inference = false;
  Autocasts autocasts;
  bool cache = true; ///< autocast's, of cast weights
  int regions = 0;   ///< of autocast

  static ThreadModes now();
  /// Gives the thread these modes again, but for inference mode, which only a `with` can leave.
  void restore() const;
  /// Whether the thread's modes are these.
  bool is_now() const;
  /// Inserts at the graph's insert point what the thread's modes differ in from those that the
  /// graph has. `depth`: op_depth(). Requires: recording.
  void record_changes(int depth);
  /// At the end of a body that began with these modes: what it has left switched, which a graph may
  /// not; a sentence without a full stop, or "".
  std::string left_switched() const;
};

/// Puts the modes back for a block to those that a call was made under; with `with_data`, its ops
/// run for real, too. Ends on the thread it began on.
class ModesOfCall {
public:
  ModesOfCall(Frontend &frontend, const ThreadModes &of_call, bool with_data);
  ~ModesOfCall();

  /// Those of the call stay: what had switched them has ended meanwhile.
  void stay() { before_ = of_call_; }

private:
  Frontend &frontend_;
  const ThreadModes of_call_;
  ThreadModes before_ = ThreadModes::now();
  std::optional<c10::InferenceMode> inference_; ///< where it differs
  std::optional<shapes::WithData> with_data_;
};

/// autocast remembers casts of weights until its outermost region ends. Those from before the trace
/// are unknown to the tracer, and those of the trace to what comes after it: neither is used. Casts
/// are also forgotten where those that a block has recorded end to be known, and around a call of
/// Python, of which nothing is recorded.
///
/// autocast holds the lock of its casts while it casts a weight, and the tracer asks the front end
/// for the line of that cast. So a thread that waits for autocast's lock must not hold the front
/// end's.
void forget_casts(Frontend &frontend);

} // namespace tracehost::trace
