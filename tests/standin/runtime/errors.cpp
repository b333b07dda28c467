#include "runtime.h"

#include <cstdio>
#include <string>

/// Errors: the last one of each thread, the sticky one of the process, and faults that a test asks
/// for.

namespace standin {

namespace {

thread_local cudaError_t last = cudaSuccess;
std::atomic<cudaError_t> broken{cudaSuccess};
std::atomic<long> kernels_before_fault{-1};
std::mutex asked;
std::map<std::string, int> calls_to_fail; ///< how many of the next ones

struct Text {
  cudaError_t error;
  const char *name;
  const char *text;
};

// The texts are NVIDIA's: PyTorch's messages and tests quote them.
constexpr Text kTexts[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

const Text *text_of(cudaError_t error) {
  for (const Text &text : kTexts)
    if (text.error == error)
      return &text;
  return nullptr;
}

} // namespace

cudaError_t fail(cudaError_t error, const char *where) {
  last = error;
  if (switches().verbose)
    std::fprintf(stderr, "standin: %s: %s\n", where, cudaGetErrorName(error));
  return error;
}

cudaError_t sticky() { return broken; }

void set_sticky(cudaError_t error) { broken = error; }

void approach_fault() {
  if (kernels_before_fault >= 0 && kernels_before_fault-- == 0)
    set_sticky(cudaErrorIllegalAddress);
}

bool is_to_fail(const char *call) {
  const std::scoped_lock lock(asked);
  const auto found = calls_to_fail.find(call);
  return found != calls_to_fail.end() && found->second > 0 && found->second-- > 0;
}

} // namespace standin

extern "C" {

/// The next `times` calls of cudaStreamBeginCapture, cudaStreamEndCapture, cudaGraphInstantiate,
/// cudaGraphLaunch, cudaMalloc, or of cudaLaunchKernel in a capture fail.
void standin_fail_call(const char *call, int times) {
  const std::scoped_lock lock(standin::asked);
  standin::calls_to_fail[call] = times;
}

/// The kernel after the next `kernels` ones makes an illegal access: all later calls fail. -1
/// repairs the device, which a real one cannot.
void standin_fail_after(long kernels) {
  standin::kernels_before_fault = kernels;
  standin::set_sticky(cudaSuccess);
  standin::last = cudaSuccess; // of a call that failed by the fault
}

cudaError_t cudaGetLastError() {
  if (standin::sticky())
    return standin::sticky();
  const cudaError_t error = standin::last;
  standin::last = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return standin::sticky() ? standin::sticky() : standin::last; }

const char *cudaGetErrorString(cudaError_t error) {
  const standin::Text *text = standin::text_of(error);
  return text ? text->text : "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error) {
  const standin::Text *text = standin::text_of(error);
  return text ? text->name : "unrecognized error code";
}
}
