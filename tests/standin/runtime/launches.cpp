#include "runtime.h"

#include <exception>

/// Launches: where work runs first, and what is left for the queue or the graph.

namespace standin {

namespace {

/// Runs work as an item of the queue, after what is in it, and returns when it has run.
void run_now(CUstream_st &stream, const Work &work) {
  std::exception_ptr failure;
  Item item;
  item.job.work = [&](Memory &memory) {
    try {
      work(memory);
    } catch (...) {
      failure = std::current_exception();
    }
  };
  Lock lock(queues());
  enqueue(lock, stream, std::move(item));
  run_all(lock, stream);
  lock.unlock();
  if (failure)
    std::rethrow_exception(failure);
}

cudaError_t status_for(CUstream_st &stream) {
  if (sticky())
    return fail(sticky(), "launch");
  Lock lock(queues());
  const bool invalid = stream.capture && stream.capture->invalid;
  return invalid ? fail(cudaErrorStreamCaptureInvalidated, "launch") : cudaSuccess;
}

} // namespace

Launch::Launch(cudaStream_t handle, Kind kind)
    : stream_(stream_of(handle)), place_(Place::device), status_(status_for(stream_)) {
  initialise(stream_.device);
  if (kind == Kind::kernel || kind == Kind::wait) {
    count(Counter::kernel);
    ++stream_.kernels;
    approach_fault();
  }
  if (kind == Kind::copy || kind == Kind::read)
    count(Counter::memcpy);
  Lock lock(queues());
  if (stream_.capture) {
    place_ = Place::draft;
    if (kind == Kind::kernel && is_to_fail("cudaLaunchKernel"))
      status_ = fail(cudaErrorNotSupported, "launch");
  } else if (switches().lazy && kind != Kind::wait && kind != Kind::read)
    place_ = Place::ahead;
}

void Launch::first(const Work &work) {
  if (place_ == Place::device)
    return run_now(stream_, work);
  std::lock_guard one(stream_.launching);
  if (place_ == Place::ahead)
    return work(ahead_memory());
  // Held here, for another thread may end the capture.
  Lock lock(queues());
  const std::shared_ptr<Capture> capture = stream_.capture;
  lock.unlock();
  if (capture)
    work(capture->draft);
}

void Launch::later(Job job) {
  if (place_ == Place::device)
    return;
  Lock lock(queues());
  if (place_ == Place::ahead)
    enqueue(lock, stream_, Item{std::move(job)});
  else if (stream_.capture)
    add_node(lock, stream_, std::move(job));
}

cudaError_t launch(cudaStream_t stream, Kind kind, Job job) {
  Launch launched(stream, kind);
  if (launched.status())
    return launched.status();
  if (!job.on_host || !launched.runs_later())
    launched.first(job.work);
  launched.later(std::move(job));
  return cudaSuccess;
}

} // namespace standin

using namespace standin;

extern "C" {

/// A function of the host runs in its turn, once for each time that the device reaches it.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  return launch(stream, Kind::other, {[=](Memory &) { function(data); }, {}, true});
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned) {
  return launch(stream, Kind::other,
                {[=](Memory &) { callback(stream, cudaSuccess, data); }, {}, true});
}

/// No compiled kernel can run here: one that was not replaced shows itself.
cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, std::size_t, cudaStream_t) {
  count(Counter::real_kernel);
  return fail(cudaErrorNotSupported, "cudaLaunchKernel");
}

cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void **, std::size_t, cudaStream_t) {
  count(Counter::real_kernel);
  return fail(cudaErrorNotSupported, "cudaLaunchKernel");
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *, const void *, void **) {
  count(Counter::real_kernel);
  return fail(cudaErrorNotSupported, "cudaLaunchKernelExC");
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = 90;
  attributes->ptxVersion = 90;
  return cudaSuccess;
}
}
