#pragma once

#include <atomic>

namespace tracehost::capture {

/// The right to use the stream of captures, which one thread of the process has at a time: another
/// thread's work there would become part of a capture.
class SideStreamUse {
public:
  SideStreamUse() : mine_(!taken_.test_and_set(std::memory_order_acquire)) {}
  ~SideStreamUse() {
    if (mine_)
      taken_.clear(std::memory_order_release);
  }
  SideStreamUse(const SideStreamUse &) = delete;
  SideStreamUse &operator=(const SideStreamUse &) = delete;
  /// False: another thread has it.
  explicit operator bool() const { return mine_; }

private:
  static constinit inline std::atomic_flag taken_{};
  const bool mine_;
};

} // namespace tracehost::capture
