#include "runtime.h"

#include <algorithm>

/// Events: points in the queue of a stream, or in a capture.

using namespace standin;

namespace {

// As in streams.cpp: a query makes progress after a few polls.
constexpr int kPolls = 3;

bool is_pending(const CUevent_st &event) {
  return event.stream && event.stream->done < event.ticket;
}

/// An event that was recorded in a capture that is under way has no state to ask for.
cudaError_t captured(Lock &lock, CUevent_st &event, const char *call) {
  if (const auto capture = active(lock, event.capture)) {
    capture->invalid = true;
    return fail(cudaErrorCapturedEvent, call);
  }
  return forbidden(lock, call);
}

/// The stream joins the event's capture, or orders itself behind the event in it.
cudaError_t wait_in_capture(CUstream_st &stream, const CUevent_st &event,
                            const std::shared_ptr<Capture> &capture) {
  if (stream.capture && stream.capture != capture) {
    stream.capture->invalid = true;
    capture->invalid = true;
    return fail(cudaErrorStreamCaptureMerge, "cudaStreamWaitEvent");
  }
  stream.capture = capture;
  Clock &clock = capture->clocks[&stream];
  for (const auto &[other, nodes] : event.clock)
    clock[other] = std::max(clock[other], nodes);
  return cudaSuccess;
}

} // namespace

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned) {
  initialise(current_device());
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  count(Counter::event_record);
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  event->stream = &stream;
  event->polls = 0;
  event->capture = stream.capture;
  event->ticket = stream.capture ? 0 : stream.queued;
  if (stream.capture)
    event->clock = stream.capture->clocks[&stream];
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  return cudaEventRecord(event, handle);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Lock lock(queues());
  if (const auto error = captured(lock, *event, "cudaEventQuery"))
    return error;
  if (is_pending(*event) && ++event->polls <= kPolls)
    return fail(cudaErrorNotReady, "cudaEventQuery");
  if (is_pending(*event))
    run_until(lock, *event->stream, event->ticket);
  return sticky();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  count(Counter::sync);
  delay();
  Lock lock(queues());
  if (const auto error = captured(lock, *event, "cudaEventSynchronize"))
    return error;
  if (is_pending(*event))
    run_until(lock, *event->stream, event->ticket);
  return sticky();
}

/// Time has no meaning here.
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
  *milliseconds = 1;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned) {
  count(Counter::wait_event);
  CUstream_st &stream = stream_of(handle);
  Lock lock(queues());
  if (!event->stream)
    return cudaSuccess;
  if (const auto capture = active(lock, event->capture))
    return wait_in_capture(stream, *event, capture);
  if (stream.capture) {
    stream.capture->invalid = true;
    return fail(cudaErrorStreamCaptureIsolation, "cudaStreamWaitEvent");
  }
  if (is_pending(*event) && event->stream != &stream) {
    Item wait;
    wait.awaited = event->stream;
    wait.ticket = event->ticket;
    enqueue(lock, stream, std::move(wait));
  }
  return cudaSuccess;
}
}
