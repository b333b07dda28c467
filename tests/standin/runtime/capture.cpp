#include "runtime.h"

/// Captures: which streams take part, which calls they forbid, and how they end.
///
/// A stream joins a capture when it waits for an event of it. It must be joined before the end:
/// each node must come before the end of the stream where the capture began. Clocks decide that.
/// The clock of a stream has, for each stream, how many nodes of it come before the next node here:
///
///     origin: node             origin {origin 1}
///     fork waits for origin    fork   {origin 1}
///     fork: node               fork   {origin 1, fork 1}
///     origin waits for fork    origin {origin 1, fork 1}     without it, fork has unjoined work
namespace standin {

namespace {

using Captures = std::map<unsigned long long, std::shared_ptr<Capture>>;

/// Those under way. Requires: queues().
Captures &captures() {
  static auto *all = new Captures;
  return *all;
}

unsigned long long last_id = 0;
thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;
// Its address stands for the thread: ids of ended threads are used again as well.
thread_local char this_thread;

cudaStreamCaptureStatus status_of(const CUstream_st &stream) {
  if (!stream.capture)
    return cudaStreamCaptureStatusNone;
  return stream.capture->invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
}

/// The table of cudaThreadExchangeStreamCaptureMode in NVIDIA's documentation.
bool forbids(const Capture &capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed || capture.mode == cudaStreamCaptureModeRelaxed)
    return false;
  return capture.thread == &this_thread || (thread_mode == cudaStreamCaptureModeGlobal &&
                                            capture.mode == cudaStreamCaptureModeGlobal);
}

bool is_joined(const Capture &capture) {
  const Clock &end = capture.clocks.at(capture.origin);
  for (const auto &[stream, clock] : capture.clocks) {
    const auto nodes = clock.find(stream);
    if (nodes == clock.end())
      continue;
    const auto joined = end.find(stream);
    if (joined == end.end() || joined->second < nodes->second)
      return false;
  }
  return true;
}

/// Takes the capture off its streams, so that they enqueue again.
std::shared_ptr<Capture> stop(CUstream_st &stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  captures().erase(capture->id);
  for (const auto &[member, clock] : capture->clocks)
    member->capture.reset();
  return capture;
}

} // namespace

cudaError_t forbidden(Lock &, const char *call) {
  cudaError_t error = cudaSuccess;
  for (const auto &[id, capture] : captures())
    if (forbids(*capture)) {
      capture->invalid = true;
      error = fail(cudaErrorStreamCaptureUnsupported, call);
    }
  return error;
}

cudaError_t forbidden(const char *call) {
  Lock lock(queues());
  return forbidden(lock, call);
}

cudaError_t forbidden_on(Lock &, CUstream_st &stream, const char *call) {
  if (!stream.capture)
    return cudaSuccess;
  stream.capture->invalid = true;
  return fail(cudaErrorStreamCaptureUnsupported, call);
}

cudaError_t reject_capture(cudaStream_t handle, const char *call) {
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  return forbidden_on(lock, stream, call);
}

void add_node(Lock &, CUstream_st &stream, Job job) {
  stream.capture->graph->nodes.push_back(std::move(job));
  ++stream.capture->clocks[&stream][&stream];
}

std::shared_ptr<Capture> active(Lock &, const std::weak_ptr<Capture> &capture) {
  const std::shared_ptr<Capture> found = capture.lock();
  return found && captures().count(found->id) ? found : nullptr;
}

} // namespace standin

using namespace standin;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  count(Counter::capture);
  if (!handle || handle == cudaStreamLegacy)
    return fail(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture");
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  if (stream.capture || is_to_fail("cudaStreamBeginCapture"))
    return fail(cudaErrorIllegalState, "cudaStreamBeginCapture");
  auto capture = std::make_shared<Capture>();
  capture->id = ++last_id;
  capture->mode = mode;
  capture->thread = &this_thread;
  capture->origin = &stream;
  capture->graph = new CUgraph_st;
  capture->clocks[&stream];
  captures()[capture->id] = capture;
  stream.capture = std::move(capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
  *graph = nullptr;
  CUstream_st &stream = stream_of(handle);
  std::shared_ptr<Capture> capture; // its draft is freed without the lock
  Lock lock(queues());
  if (!stream.capture)
    return fail(cudaErrorIllegalState, "cudaStreamEndCapture");
  if (stream.capture->origin != &stream)
    return fail(cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture");
  if (stream.capture->mode != cudaStreamCaptureModeRelaxed &&
      stream.capture->thread != &this_thread)
    return fail(cudaErrorStreamCaptureWrongThread, "cudaStreamEndCapture");
  capture = stop(stream);
  capture->invalid |= is_to_fail("cudaStreamEndCapture");
  const bool joined = is_joined(*capture);
  if (!capture->invalid && joined) {
    *graph = capture->graph;
    return cudaSuccess;
  }
  delete capture->graph;
  return fail(capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined,
              "cudaStreamEndCapture");
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus *status) {
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  *status = status_of(stream);
  return cudaSuccess;
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus *status,
                                     unsigned long long *id, cudaGraph_t *graph,
                                     const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, std::size_t *count) {
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  *status = status_of(stream);
  if (id)
    *id = stream.capture ? stream.capture->id : 0;
  if (graph)
    *graph = stream.capture ? stream.capture->graph : nullptr;
  if (dependencies)
    *dependencies = nullptr;
  if (edges)
    *edges = nullptr;
  if (count)
    *count = 0;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) {
  std::swap(*mode, thread_mode);
  return cudaSuccess;
}
}
