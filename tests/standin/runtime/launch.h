#pragma once

#include <driver_types.h>

#include <cstddef>
#include <functional>
#include <vector>

/// What the kernels of kernels/ ask of the runtime: where memory's contents are, and how work is
/// enqueued. runtime.h has the overview.

namespace standin {

/// Where a piece of work finds the contents of an address that a program holds.
///
/// Work never reads an address of device memory itself: it asks at(). Three classes answer:
///
///     device    the contents of the device
///     ahead     what the device will contain once all enqueued work has run (lazy streams)
///     draft     what a captured graph computes, which the device never sees (capture)
///
/// An address of host memory is its own place in all three.
class Memory {
public:
  virtual ~Memory() = default;
  virtual void *at(const void *address) = 0;
};

/// Runs on any thread, any number of times. Holds addresses and never Python objects.
using Work = std::function<void(Memory &)>;

/// Bytes that a piece of work reads or writes.
struct Span {
  const void *begin;
  std::size_t bytes;
};

struct Job {
  Work work;
  std::vector<Span> touches;
  bool on_host = false; ///< changes the host, so it runs in its turn only
};

enum class Kind {
  kernel,
  wait, ///< a kernel whose stream has been synchronised: it runs on the device at once
  read, ///< the same for one number that the host reads; counted as memcpy
  copy, ///< counted as memcpy
  other,
};

/// One launch on a stream.
///
///     eager     first() runs the work on the device; nothing is left to do
///     lazy      first() runs it ahead, for its results' shapes; later() puts it into the queue
///     capture   first() runs it on the draft; later() makes a node of the graph
///
/// A call that waits, such as `nonzero`, runs at once on a lazy stream as well. settle() then
/// copies what it has written to `ahead`.
class Launch {
public:
  Launch(cudaStream_t stream, Kind kind);

  /// Not cudaSuccess: the launch fails, and nothing may be run.
  cudaError_t status() const { return status_; }
  /// later() is needed.
  bool runs_later() const { return place_ != Place::device; }
  bool is_captured() const { return place_ == Place::draft; }
  /// Runs `work` before it returns, and throws what it throws. May be called more than once.
  void first(const Work &work);
  void later(Job job);

private:
  enum class Place { device, ahead, draft };

  CUstream_st &stream_;
  Place place_;
  cudaError_t status_;
};

/// Allocated by cudaHostAlloc or registered, so that a copy need not wait.
bool is_page_locked(const void *address);

/// Fails if the stream captures, and invalidates the capture.
cudaError_t reject_capture(cudaStream_t stream, const char *call);

/// Runs the queue of a stream. Not counted: the caller is no synchronisation of the program.
void drain(cudaStream_t stream);

/// Fills memory that later work will write with NaN, so that a reader who does not wait notices.
/// Does nothing while enqueued work still uses the old contents.
void spoil(Span span);

/// Copies what the device contains to `ahead`. Does nothing without lazy streams.
void settle(Span span);

} // namespace standin
