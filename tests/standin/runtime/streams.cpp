#include "runtime.h"

#include <algorithm>
#include <cstdio>
#include <exception>

#include <unistd.h>

/// Streams: queues of items, and the threads that run them. runtime.h has an example.
///
/// Several threads may wait for one stream. The first one that finds it idle takes an item and sets
/// `busy`; the others sleep until the item is done. A wait for another stream is run the same way,
/// by running that stream. This cannot deadlock: a wait always names a ticket that was given out
/// before the wait was enqueued, so waits form no circle.
namespace standin {

namespace {

// A launch on a real device blocks when about so many are queued.
constexpr std::size_t kMostQueued = 1024;
// A query answers "not ready" this often, then runs the work: programs poll in loops.
constexpr int kPolls = 3;

std::condition_variable &progressed() {
  // Never destroyed: threads may still wait when the process ends.
  static auto *condition = new std::condition_variable;
  return *condition;
}

/// All streams, which are never destroyed: events and queues point to them.
std::vector<CUstream_st *> &streams() {
  static auto *all = new std::vector<CUstream_st *>;
  return *all;
}

CUstream_st *new_stream(int device, unsigned flags, int priority) {
  auto *stream = new CUstream_st;
  stream->device = device;
  stream->flags = flags;
  stream->priority = priority;
  streams().push_back(stream);
  return stream;
}

std::atomic<long> delay_us{0};

/// What an op throws here it did not throw at its launch: the data is to blame, as with an assert
/// in a kernel.
void run_work(const Work &work) {
  try {
    work(device_memory());
  } catch (const std::exception &error) {
    std::fprintf(stderr, "standin: enqueued work failed: %s\n", error.what());
    set_sticky(cudaErrorAssert);
  }
}

bool overlaps(const Item &item, Span span) {
  const auto *begin = static_cast<const char *>(span.begin);
  return std::ranges::any_of(item.job.touches, [&](const Span &touched) {
    const auto *other = static_cast<const char *>(touched.begin);
    return other < begin + span.bytes && begin < other + touched.bytes;
  });
}

} // namespace

std::mutex &queues() {
  static auto *mutex = new std::mutex;
  return *mutex;
}

CUstream_st &stream_of(cudaStream_t handle) {
  if (handle && handle != cudaStreamLegacy && handle != cudaStreamPerThread)
    return *handle;
  static std::mutex mutex;
  static CUstream_st *defaults[kMostDevices];
  CUstream_st *&found = defaults[current_device()];
  std::lock_guard mine(mutex);
  if (!found) {
    Lock lock(queues());
    found = new_stream(current_device(), 0, 0);
  }
  return *found;
}

void enqueue(Lock &lock, CUstream_st &stream, Item item) {
  stream.items.push_back(std::move(item));
  ++stream.queued;
  const std::size_t most = switches().lazy ? kMostQueued : 0;
  if (stream.items.size() > most)
    run_until(lock, stream, stream.queued - most);
}

void run_until(Lock &lock, CUstream_st &stream, std::uint64_t ticket) {
  while (stream.done < ticket) {
    if (stream.busy) {
      progressed().wait(lock);
      continue;
    }
    stream.busy = true;
    stream.running = std::move(stream.items.front());
    stream.items.pop_front();
    if (stream.running.awaited) {
      run_until(lock, *stream.running.awaited, stream.running.ticket);
    } else {
      lock.unlock();
      run_work(stream.running.job.work);
      stream.running.job.work = nullptr; // frees what the work holds, without the lock
      lock.lock();
    }
    stream.running = {};
    stream.busy = false;
    ++stream.done;
    progressed().notify_all();
  }
}

void run_all(Lock &lock, CUstream_st &stream) { run_until(lock, stream, stream.queued); }

/// The streams take turns, as they would side by side: one that should wait for another shows it.
void run_device(Lock &lock, int device) {
  std::vector<std::pair<CUstream_st *, std::uint64_t>> all;
  for (CUstream_st *stream : streams())
    if (device < 0 || stream->device == device)
      all.emplace_back(stream, stream->queued);
  for (bool any = true; any;) {
    any = false;
    for (const auto &[stream, last] : all) {
      if (stream->done < last)
        run_until(lock, *stream, stream->done + 1);
      any |= stream->done < last;
    }
  }
}

bool is_in_use(Span span) {
  Lock lock(queues());
  return std::ranges::any_of(streams(), [&](const CUstream_st *stream) {
    return (stream->busy && overlaps(stream->running, span)) ||
           std::ranges::any_of(stream->items,
                               [&](const Item &item) { return overlaps(item, span); });
  });
}

void drain(cudaStream_t handle) {
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  run_all(lock, stream);
}

void delay() {
  if (delay_us)
    usleep(static_cast<useconds_t>(delay_us));
}

void reset_kernels() {
  Lock lock(queues());
  for (CUstream_st *stream : streams())
    stream->kernels = 0;
}

} // namespace standin

using namespace standin;

extern "C" {

/// Each synchronisation takes so long.
void standin_delay(long microseconds) { delay_us = microseconds; }

/// Kernels that were launched on the stream; a null handle is the current device's default stream.
long standin_on_stream(cudaStream_t handle) { return stream_of(handle).kernels; }

/// Items that have not run, of all streams.
long standin_queued() {
  Lock lock(queues());
  long sum = 0;
  for (const CUstream_st *stream : streams())
    sum += static_cast<long>(stream->queued - stream->done);
  return sum;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority) {
  initialise(current_device());
  Lock lock(queues());
  if (const auto error = forbidden(lock, "cudaStreamCreate"))
    return error;
  *handle = new_stream(current_device(), flags, priority);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags) {
  return cudaStreamCreateWithPriority(handle, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *handle) {
  return cudaStreamCreateWithPriority(handle, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  Lock lock(queues());
  run_all(lock, *handle);
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int *priority) {
  *priority = stream_of(handle).priority;
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  if (const auto error = forbidden_on(lock, stream, "cudaStreamQuery"))
    return error;
  if (stream.done < stream.queued && ++stream.polls <= kPolls)
    return fail(cudaErrorNotReady, "cudaStreamQuery");
  stream.polls = 0;
  run_all(lock, stream);
  return sticky();
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  count(Counter::sync);
  delay();
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  if (const auto error = forbidden_on(lock, stream, "cudaStreamSynchronize"))
    return error;
  if (const auto error = forbidden(lock, "cudaStreamSynchronize"))
    return error;
  run_all(lock, stream);
  return sticky() ? fail(sticky(), "cudaStreamSynchronize") : cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  count(Counter::sync);
  initialise(current_device());
  delay();
  Lock lock(queues());
  if (const auto error = forbidden(lock, "cudaDeviceSynchronize"))
    return error;
  run_device(lock, current_device());
  return sticky() ? fail(sticky(), "cudaDeviceSynchronize") : cudaSuccess;
}
}
