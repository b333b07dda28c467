#pragma once

#include <c10/core/DeviceType.h>

#include <cstdint>
#include <string>

namespace tracehost::trace {

/// The modes as the graph has them so far: what its nodes up to here, run in order, would leave
/// set.
class ModeRecord {
public:
  static ModeRecord now();
  /// Whether the thread's modes are these.
  bool is_now() const;
  /// Inserts `aten::set_grad_enabled` at the graph's insert point if the thread's grad mode is not
  /// what the graph has. Returns a sentence without a full stop if a mode changed that can't be
  /// recorded, else "". `depth`: op_depth(). Requires: recording.
  std::string record_changes(int depth);

private:
  bool grad_ = true;
  bool inference_ = false;
  std::uint64_t autocast_ = 0; ///< one byte a device type: its dtype + 1, 0: off
};

/// autocast keeps its cast weights in a cache across ops, unknown to the tracer: off for a block.
class AutocastCacheOff {
public:
  AutocastCacheOff();
  ~AutocastCacheOff();

private:
  bool before_;
};

} // namespace tracehost::trace
