#pragma once

#include "launch.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

/// A CUDA runtime in host memory, for tests on a machine without a GPU.
///
/// What it replaces: the functions that PyTorch's libraries import from libcudart. This library is
/// loaded first with RTLD_GLOBAL, so the dynamic linker finds its definitions before NVIDIA's.
/// Functions that are not defined here reach the real libcudart, and fail there for want of a
/// driver. driver.cpp is a libcuda.so.1, and kernels/ takes the place of PyTorch's CUDA kernels.
///
/// How work is enqueued: a kernel, copy, wait or graph is an Item in the queue of its stream. Each
/// item has a number, its ticket; a stream remembers the last ticket that is done. An event is a
/// stream and a ticket. To wait means: run items of that stream, in order, up to the ticket
/// (run_until). The thread that waits runs them. An eager stream waits at once after each item; a
/// lazy one (STANDIN_LAZY=1) leaves the item until something waits.
///
/// Example with lazy streams A and B:
///
///     copy on A                 A: [1 copy]                 nothing has run
///     record e on A             e = (A, 1)
///     B waits for e             B: [1 wait for (A, 1)]
///     add on B                  B: [1 wait, 2 add]
///     synchronise B             runs 1 wait, thus A's copy, then 2 add
///
/// Without the wait the add runs on what the memory contained before the copy: NaN, because the
/// launch of the copy has spoiled it.
///
/// A lazy launch must return tensors of the right shape before anything has run. So each block of
/// device memory has a second copy of its contents, `ahead`. Work runs there at its launch, in the
/// order of launches. It runs on the device when its turn comes. A capture has such a copy as well,
/// the draft: captured work runs there once, and the device sees nothing of it.
///
/// Locks: queues() guards streams, events and captures; memory has its own. Neither is held while
/// work runs, so a thread that holds Python's GIL may wait here for a thread that needs it.
///
/// What it shows: order of work between streams, captures and their errors, synchronisations,
/// memory, launches, use of the right device. What it cannot show: speed, TF32, atomics, races
/// inside a kernel. What does not run: cuDNN, LSTM and GRU cells, sparse tensors, jiterator,
/// conditional nodes of graphs, NCCL. Default streams do not synchronise with blocking streams.
///
/// Environment, read once:
///
///     STANDIN_DEVICES   number of devices, 2 by default, at most 16
///     STANDIN_MB        memory of each device, 4096 by default
///     STANDIN_PROTECT   1: device memory is unreadable at its address, so a host access crashes
///     STANDIN_LAZY      1: lazy streams
///     STANDIN_VERBOSE   1: errors and unknown functions go to stderr
namespace standin {

constexpr int kMostDevices = 16;

struct Switches {
  int devices;
  std::size_t bytes; ///< of each device
  bool protect;
  bool lazy;
  bool verbose;
};
const Switches &switches();

// counters.cpp

enum class Counter {
  kernel,
  sync,
  malloc,
  free,
  host_alloc,
  memcpy,
  memset,
  event_record,
  wait_event,
  capture,
  instantiate,
  graph_launch,
  real_kernel, ///< a kernel that was not replaced
};
/// Counts a call, and counts it a second time as `gil_...` if this thread holds the GIL.
void count(Counter counter);

// devices.cpp

int current_device();
/// A call that makes the context of a device, as real ones do.
void initialise(int device);

// errors.cpp

/// Remembers the error for cudaGetLastError. Returns it.
cudaError_t fail(cudaError_t error, const char *where);
/// An error that no later call recovers from, such as an illegal address; cudaSuccess: none.
cudaError_t sticky();
void set_sticky(cudaError_t error);
/// Counts a kernel for standin_fail_after().
void approach_fault();
/// Whether standin_fail_call() wants this call to fail.
bool is_to_fail(const char *call);

// memory.cpp

Memory &device_memory();
Memory &ahead_memory();
/// Null: the device's memory is used up.
char *allocate(std::size_t bytes, int device);
/// False: no block of a device begins there.
bool release(void *address);
void add_host_block(void *address, std::size_t bytes);
void remove_host_block(void *address);
std::size_t used_bytes(int device);
/// The device that a block was allocated for, -2 for other memory.
int device_of(const void *address);
/// True for memory of cudaMalloc.
bool is_device(const void *address);
/// What a capture computes. The first access to a block copies it.
class Draft : public Memory {
public:
  ~Draft() override;
  void *at(const void *address) override;

private:
  struct Copy {
    char *contents;
    std::size_t bytes;
  };
  std::mutex mutex_;
  std::map<std::uint64_t, Copy> copies_; ///< by the block's number
};

// streams.cpp

struct Capture;

struct Item {
  Job job;
  CUstream_st *awaited = nullptr; ///< with `ticket`: a wait instead of work
  std::uint64_t ticket = 0;
};

using Lock = std::unique_lock<std::mutex>;
/// Guards streams, events and captures.
std::mutex &queues();

/// A null handle is the default stream of the current device.
CUstream_st &stream_of(cudaStream_t handle);
/// Adds an item to the queue; an eager stream runs it before this returns.
void enqueue(Lock &lock, CUstream_st &stream, Item item);
/// Runs items until that ticket is done. Releases the lock while work runs.
void run_until(Lock &lock, CUstream_st &stream, std::uint64_t ticket);
void run_all(Lock &lock, CUstream_st &stream);
/// All streams of a device, or of all devices for -1.
void run_device(Lock &lock, int device);
/// Enqueued work uses these bytes.
bool is_in_use(Span span);
/// After standin_delay(), a synchronisation takes longer.
void delay();
/// Sets the counts of kernels of all streams to 0.
void reset_kernels();

// capture.cpp

/// How many nodes of each stream come before a point of a capture.
using Clock = std::map<CUstream_st *, long>;

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void *thread = nullptr;
  CUstream_st *origin = nullptr;
  bool invalid = false;
  CUgraph_st *graph = nullptr;
  Draft draft;
  std::map<CUstream_st *, Clock> clocks; ///< of the streams that take part
};

/// Fails, and invalidates the captures that forbid it, if the call may not run in a capture of this
/// thread or of another one.
cudaError_t forbidden(Lock &lock, const char *call);
/// The same, for calls that hold no lock.
cudaError_t forbidden(const char *call);
/// Fails if the stream is in a capture, which becomes invalid.
cudaError_t forbidden_on(Lock &lock, CUstream_st &stream, const char *call);
void add_node(Lock &lock, CUstream_st &stream, Job job);
/// Null unless the capture is under way.
std::shared_ptr<Capture> active(Lock &lock, const std::weak_ptr<Capture> &capture);

// launches.cpp

/// A launch of work that has no results, such as a copy.
cudaError_t launch(cudaStream_t stream, Kind kind, Job job);

} // namespace standin

struct CUstream_st {
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  std::deque<standin::Item> items; ///< that have not begun
  standin::Item running;
  bool busy = false; ///< a thread runs `running`
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
  int polls = 0;
  std::mutex launching; ///< two threads' launches run one after the other on `ahead`
  std::shared_ptr<standin::Capture> capture;
  std::atomic<long> kernels{0};
};

struct CUgraph_st {
  std::vector<standin::Job> nodes; ///< in the order of their capture
  std::vector<std::shared_ptr<void>> kept;
};

struct CUgraphExec_st {
  std::vector<standin::Job> nodes;
  std::vector<std::shared_ptr<void>> kept;
};

struct CUevent_st {
  CUstream_st *stream = nullptr; ///< null: never recorded
  std::uint64_t ticket = 0;
  int polls = 0;
  std::weak_ptr<standin::Capture> capture; ///< recorded in it, at `clock`
  standin::Clock clock;
};
