#include "capture/device.h"
#include "capture/plugin.h"

#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstring>
#include <mutex>
#include <optional>
#include <utility>

/// Captures on CUDA devices: the one place of tracehost that includes CUDA's headers. A library of
/// its own, loaded by capture/plugin.cpp.

namespace tracehost::capture {
namespace {

using c10::cuda::CUDAStream;

class CudaGraph final : public Captured {
public:
  explicit CudaGraph(std::unique_ptr<at::cuda::CUDAGraph> graph) : graph(std::move(graph)) {}
  const std::unique_ptr<at::cuda::CUDAGraph> graph;
};

/// Recorded and waited for once. CUDA keeps it until then.
class Event {
public:
  explicit Event(CUDAStream after) {
    const c10::cuda::CUDAGuard there(after.device());
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(event_, after));
  }
  ~Event() { C10_CUDA_CHECK_WARN(cudaEventDestroy(event_)); }
  Event(const Event &) = delete;
  Event &operator=(const Event &) = delete;
  void block(CUDAStream stream) const {
    const c10::cuda::CUDAGuard there(stream.device());
    C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }

private:
  cudaEvent_t event_ = nullptr;
};

class CudaDevice final : public GraphDevice {
public:
  c10::DeviceType type() const override { return c10::kCUDA; }

  bool is_capturing(c10::DeviceIndex device) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t error =
        cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(device), &status);
    if (error == cudaSuccess)
      return status != cudaStreamCaptureStatusNone;
    // The default stream, while another stream of the process captures in the global mode.
    static_cast<void>(cudaGetLastError());
    return true;
  }
  bool has_pools() override { return c10::cuda::CUDACachingAllocator::isEnabled(); }

  /// One stream for each device, made here. Streams of torch's pool come round to others, whose
  /// work would go into the capture.
  c10::Stream side_stream(c10::DeviceIndex device) override {
    const std::scoped_lock lock(streams_);
    auto &side = sides_.at(static_cast<std::size_t>(device));
    if (!side) {
      const Unbreaking making(*this);
      const c10::cuda::CUDAGuard there(device);
      cudaStream_t made = nullptr;
      C10_CUDA_CHECK(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0));
      side = c10::cuda::getStreamFromExternal(made, device).unwrap();
    }
    return *side;
  }
  c10::Stream current(c10::DeviceIndex device) override {
    return c10::cuda::getCurrentCUDAStream(device).unwrap();
  }
  void set_current(c10::Stream stream) override {
    c10::cuda::setCurrentCUDAStream(CUDAStream(stream));
  }
  void wait(c10::Stream waits, c10::Stream awaited) override {
    Event(CUDAStream(awaited)).block(CUDAStream(waits));
  }
  void used_on(const at::Tensor &tensor, c10::Stream stream) override {
    c10::cuda::CUDACachingAllocator::recordStream(tensor.storage().data_ptr(), CUDAStream(stream));
  }

  PoolId new_pool() override {
    const auto pool = at::cuda::graph_pool_handle();
    return {pool.first, pool.second};
  }
  /// The graph has released the pool. The allocator returns its memory when it needs some.
  void drop(PoolId) noexcept override {}
  std::size_t bytes_of(PoolId pool, c10::DeviceIndex device) override {
    const auto known = c10::cuda::CUDACachingAllocator::snapshot({pool.first, pool.second}, false);
    std::size_t sum = 0;
    for (const auto &segment : known.segments)
      sum += segment.device == device ? segment.total_size : 0;
    return sum;
  }
  void free_unused() override { c10::cuda::CUDACachingAllocator::emptyCache(); }

  void begin(c10::Stream stream, PoolId pool) override {
    const c10::cuda::CUDAGuard there(stream.device());
    stream_ = stream;
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    graph_->capture_begin({pool.first, pool.second}, cudaStreamCaptureModeThreadLocal);
  }
  std::unique_ptr<Captured> end() override {
    const c10::cuda::CUDAGuard there(stream_->device());
    graph_->capture_end();
    return std::make_unique<CudaGraph>(std::move(graph_));
  }
  void abandon() noexcept override {
    try {
      const c10::cuda::CUDAStreamGuard there{CUDAStream(*stream_)};
      graph_->capture_end();
    } catch (const std::exception &) { // it is broken
    }
    try {
      if (graph_)
        graph_->reset();
    } catch (const std::exception &) { // the destructor tries again, and warns
    }
    graph_.reset();
    static_cast<void>(cudaGetLastError());
  }

  /// On the current stream. A replay moves the generator on before it starts.
  void replay(Captured &captured, c10::Stream stream) override {
    auto &draws = *at::check_generator<at::CUDAGeneratorImpl>(
        at::cuda::detail::getDefaultCUDAGenerator(stream.device_index()));
    const std::uint64_t before = draws.philox_offset_per_thread();
    try {
      static_cast<CudaGraph &>(captured).graph->replay();
    } catch (...) {
      draws.set_philox_offset_per_thread(before);
      static_cast<void>(cudaGetLastError());
      throw;
    }
  }

  bool set_breaking(bool breaks) override {
    auto mode = breaks ? cudaStreamCaptureModeGlobal : cudaStreamCaptureModeRelaxed;
    C10_CUDA_CHECK_WARN(cudaThreadExchangeStreamCaptureMode(&mode));
    return mode != cudaStreamCaptureModeRelaxed;
  }

private:
  std::mutex streams_;
  std::array<std::optional<c10::Stream>, C10_COMPILE_TIME_MAX_GPUS> sides_;
  // Of the capture under way; there is one in the process.
  std::optional<c10::Stream> stream_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

CudaDevice cuda_device;

} // namespace

extern "C" __attribute__((visibility("default"))) GraphDevice *
tracehost_graph_device(const char *built_for) {
  return std::strcmp(built_for, kPluginBuild) == 0 ? &cuda_device : nullptr;
}

} // namespace tracehost::capture
