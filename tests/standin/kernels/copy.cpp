#include "boxed.h"
#include "tensors.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/expand.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

/// copy_ in its four forms:
///
///     within a device       a kernel on the current stream
///     between two devices   a copy on the source's stream; the two streams wait for each other
///     page-locked memory    a copy; without non_blocking the host waits
///     pageable memory       the same, but the source is staged, and a target makes the host wait
namespace standin {

namespace {

using c10::cuda::CUDAStream;

bool is_page_locked(const at::Tensor &tensor) {
  return standin::is_page_locked(tensor.storage().data());
}

/// `later` runs what follows after what `earlier` has been given so far.
void order(CUDAStream earlier, CUDAStream later) {
  cudaEvent_t event = nullptr;
  {
    const c10::cuda::CUDAGuard guard(earlier.device());
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(event, earlier));
  }
  const c10::cuda::CUDAGuard guard(later.device());
  C10_CUDA_CHECK(cudaStreamWaitEvent(later, event, 0));
  C10_CUDA_CHECK(cudaEventDestroy(event));
}

/// The host's allocator gives the memory out again only after the copy has run.
void keep_until_copied(const at::Tensor &host, CUDAStream stream) {
  const at::DataPtr &data = host.storage().data_ptr();
  at::getHostAllocator(at::kCUDA)->record_event(data.get(), data.get_context(), stream.unwrap());
}

Job job_of(const at::Tensor &to, const at::Tensor &from, std::shared_ptr<void> staged) {
  Storages storages;
  auto work = [to = form_of(to, storages), from = form_of(from, storages),
               staged = std::move(staged)](Memory &memory) {
    Plainly plainly;
    Storages places;
    at::Tensor target = placed(to, memory, places);
    at::native::copy_(target, placed(from, memory, places));
  };
  return {std::move(work), {span_of(to), span_of(from)}, to.is_cpu()};
}

void run(CUDAStream stream, Kind kind, const at::Tensor &to, const at::Tensor &from,
         std::shared_ptr<void> staged = nullptr) {
  Launch launch(stream, kind);
  C10_CUDA_CHECK(launch.status());
  Job job = job_of(to, from, std::move(staged));
  if (!job.on_host || !launch.runs_later())
    launch.first(job.work);
  if (launch.runs_later() && !launch.is_captured() && to.is_non_overlapping_and_dense())
    spoil(span_of(to));
  launch.later(std::move(job));
}

void copy_between_devices(const at::Tensor &to, const at::Tensor &from) {
  const CUDAStream source = c10::cuda::getCurrentCUDAStream(from.device().index());
  const CUDAStream target = c10::cuda::getCurrentCUDAStream(to.device().index());
  order(target, source);
  {
    const c10::cuda::CUDAGuard guard(source.device());
    run(source, Kind::copy, to, from);
  }
  order(source, target);
}

void copy_to_or_from_host(const at::Tensor &to, const at::Tensor &from, bool non_blocking) {
  const at::Tensor &host = to.is_cuda() ? from : to;
  const at::Tensor &device = to.is_cuda() ? to : from;
  const c10::cuda::CUDAGuard guard(device.device());
  const CUDAStream stream = c10::cuda::getCurrentCUDAStream(device.device().index());
  const bool pageable = !is_page_locked(host);
  if (pageable)
    C10_CUDA_CHECK(reject_capture(stream, "copy of pageable memory"));
  if (pageable && from.is_cpu()) {
    auto staged = std::make_shared<at::Tensor>(from.clone());
    run(stream, Kind::copy, to, *staged, staged);
  } else {
    run(stream, Kind::copy, to, from);
  }
  if (!non_blocking)
    C10_CUDA_CHECK(cudaStreamSynchronize(stream));
  else if (!pageable)
    keep_until_copied(host, stream);
  else if (to.is_cpu())
    drain(stream);
}

} // namespace

at::Tensor &copy(at::Tensor &self, const at::Tensor &source, bool non_blocking) {
  if (self.is_same(source))
    return self;
  Plainly plainly;
  const at::Tensor from = source.expand_as(self);
  if (!self.numel())
    return self;
  if (!self.is_cuda() || !source.is_cuda()) {
    copy_to_or_from_host(self, from, non_blocking);
  } else if (self.device() != source.device()) {
    copy_between_devices(self, from);
  } else {
    const c10::cuda::CUDAGuard guard(self.device());
    run(c10::cuda::getCurrentCUDAStream(self.device().index()), Kind::kernel, self, from);
  }
  return self;
}

} // namespace standin
