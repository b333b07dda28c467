#pragma once

#include "capture/device.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace tracehost::capture {

/// Memory that captures of one Function share: what one of them computes lies where another one
/// computes something else. So one of them is replayed at a time, and a replay waits for the last.
class Pool {
public:
  Pool(GraphDevice &device, c10::DeviceIndex index) : device_(device), index_(index) {}
  Pool(const Pool &) = delete;
  Pool &operator=(const Pool &) = delete;

  /// The right to replay.
  bool try_lock() { return !busy_.test_and_set(std::memory_order_acquire); }
  void unlock() { busy_.clear(std::memory_order_release); }
  /// The stream of the last replay of any capture; none: there was none. Requires: the lock.
  std::optional<c10::Stream> last;

  /// As those of GraphDevice.
  void begin(c10::Stream stream);
  std::unique_ptr<Captured> end();
  void abandon() noexcept;

  /// By how many bytes the pool has grown since this was asked.
  std::int64_t growth();
  /// Destroys a capture. Returns how many bytes the device has again: the last one returns all.
  std::int64_t free(std::unique_ptr<Captured> captured);

private:
  void leave();

  GraphDevice &device_;
  const c10::DeviceIndex index_;
  std::atomic_flag busy_;
  std::mutex mutex_; ///< of what follows. Held while a capture begins or is destroyed
  PoolId id_{};      ///< a new one after the last capture
  int captures_ = 0;
  bool begun_ = false;
  std::int64_t bytes_ = 0;
};

/// The pools of one Function. Each lives as long as a capture that uses it. Any thread.
class Pools {
public:
  /// That of a device, made if there is none.
  std::shared_ptr<Pool> of(GraphDevice &device, c10::DeviceIndex index);
  /// A capture has failed, and the device may keep memory for it: later ones get another pool.
  void forget(const std::shared_ptr<Pool> &pool);

private:
  std::mutex mutex_;
  std::map<c10::DeviceIndex, std::weak_ptr<Pool>> pools_;
};

} // namespace tracehost::capture
