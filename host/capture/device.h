#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <cstdint>
#include <memory>
#include <utility>

/// What captures need from a device. The CUDA plug-in implements it (cuda/device.cpp); tests have a
/// fake one. No CUDA header is needed here.

namespace tracehost::capture {

/// A CUDA graph that can be replayed. Its destructor frees the memory that its capture took from
/// the pool.
class Captured {
public:
  virtual ~Captured() = default;
};

/// A pool of memory that only captures allocate from.
using PoolId = std::pair<std::uint64_t, std::uint64_t>;

class GraphDevice {
public:
  virtual ~GraphDevice() = default;

  virtual c10::DeviceType type() const = 0;
  /// Hot. Whether work of this thread goes into a capture now.
  virtual bool is_capturing(c10::DeviceIndex device) = 0;
  /// Whether memory comes from the allocator that has pools. A debug setting disables it.
  virtual bool has_pools() = 0;

  virtual c10::Stream side_stream(c10::DeviceIndex device) = 0;
  /// Hot. The stream that this thread's work goes to.
  virtual c10::Stream current(c10::DeviceIndex device) = 0;
  virtual void set_current(c10::Stream stream) = 0;
  /// Later work of `waits` starts when the work that `awaited` has now is done. The host does not
  /// wait.
  virtual void wait(c10::Stream waits, c10::Stream awaited) = 0;
  /// The tensor's memory is not used again before the work that `stream` has when it is freed.
  virtual void used_on(const at::Tensor &tensor, c10::Stream stream) = 0;

  virtual PoolId new_pool() = 0;
  /// No capture has memory of the pool any more.
  virtual void drop(PoolId pool) noexcept = 0;
  /// How much memory of the device the pool has.
  virtual std::size_t bytes_of(PoolId pool, c10::DeviceIndex device) = 0;
  /// Returns memory that the allocator keeps for later. It can't do so in a capture.
  virtual void free_unused() = 0;

  /// This thread's work on the current stream is captured until end(), and is not executed. Throws.
  virtual void begin(c10::Stream stream, PoolId pool) = 0;
  /// Throws if the capture is broken.
  virtual std::unique_ptr<Captured> end() = 0;
  /// After a failure of begin(), end() or of the work between them: the device is as before.
  virtual void abandon() noexcept = 0;

  /// Hot. Throws if the device does not start it.
  virtual void replay(Captured &captured, c10::Stream stream) = 0;

  /// Whether waits and allocations of this thread may break captures of other threads. Returns what
  /// was set before.
  virtual bool set_breaking(bool breaks) = 0;
};

/// Waits and allocations of this thread do not break captures of other threads.
class Unbreaking {
public:
  explicit Unbreaking(GraphDevice &device) : device_(device), before_(device.set_breaking(false)) {}
  ~Unbreaking() { device_.set_breaking(before_); }
  Unbreaking(const Unbreaking &) = delete;
  Unbreaking &operator=(const Unbreaking &) = delete;

private:
  GraphDevice &device_;
  const bool before_;
};

/// Another stream is this thread's current one.
class OnStream {
public:
  OnStream(GraphDevice &device, c10::Stream stream, c10::Stream before)
      : device_(device), before_(before) {
    device_.set_current(stream);
  }
  ~OnStream() { device_.set_current(before_); }
  OnStream(const OnStream &) = delete;
  OnStream &operator=(const OnStream &) = delete;

private:
  GraphDevice &device_;
  const c10::Stream before_;
};

} // namespace tracehost::capture
