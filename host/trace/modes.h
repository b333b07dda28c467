#pragma once

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <cstdint>
#include <optional>
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

/// The modes of a thread that code can switch in a block.
struct ThreadModes {
  struct Autocast {
    bool on = false;
    at::ScalarType dtype = at::kFloat;
  };
  bool grad = true;
  bool inference = false;
  std::array<Autocast, 2> autocast; ///< CPU, CUDA

  static ThreadModes now();
};

/// Puts the modes back for a block to those that a call was made under; with `with_data`, torch's
/// modes that run ops without data have no part in it either. Ends on the thread it began on.
class ModesOfCall {
public:
  ModesOfCall(const ThreadModes &of_call, bool with_data);
  ~ModesOfCall();
  ModesOfCall(const ModesOfCall &) = delete;
  ModesOfCall &operator=(const ModesOfCall &) = delete;

  /// Those of the call stay: what had switched them has ended meanwhile.
  void stay() { before_ = of_call_; }

private:
  const ThreadModes of_call_;
  ThreadModes before_ = ThreadModes::now();
  std::optional<c10::InferenceMode> inference_; ///< where it differs
  std::optional<c10::impl::ExcludeDispatchKeyGuard> with_data_;
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
