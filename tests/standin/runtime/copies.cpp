#include "runtime.h"

#include <cstring>
#include <string>

/// Copies and fills. A copy between a device and pageable host memory is staged, as on a GPU: a
/// capture cannot contain it, and it is over when the call returns.

using namespace standin;

namespace {

bool is_pageable(const void *address) { return !is_device(address) && !is_page_locked(address); }

Job copy_job(void *to, const void *from, std::size_t bytes) {
  return {[=](Memory &memory) { std::memcpy(memory.at(to), memory.at(from), bytes); },
          {{to, bytes}, {from, bytes}},
          !is_device(to)};
}

Job fill_job(void *to, int value, std::size_t bytes) {
  return {[=](Memory &memory) { std::memset(memory.at(to), value, bytes); },
          {{to, bytes}},
          !is_device(to)};
}

/// The source may change or go as soon as the call returns.
Job staged_job(void *to, const void *from, std::size_t bytes) {
  auto staged = std::make_shared<std::string>(static_cast<const char *>(from), bytes);
  return {[=](Memory &memory) { std::memcpy(memory.at(to), staged->data(), bytes); },
          {{to, bytes}},
          false};
}

cudaError_t copy(void *to, const void *from, std::size_t bytes, cudaStream_t stream) {
  if (!bytes)
    return cudaSuccess;
  if (is_pageable(to) || is_pageable(from))
    if (const auto error = reject_capture(stream, "copy of pageable memory"))
      return error;
  if (is_pageable(from) && is_device(to))
    return launch(stream, Kind::copy, staged_job(to, from, bytes));
  const cudaError_t error = launch(stream, Kind::copy, copy_job(to, from, bytes));
  if (!error && is_pageable(to))
    drain(stream);
  return error;
}

} // namespace

extern "C" {

cudaError_t cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, std::size_t bytes,
                                cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}

/// Runs the default stream only. PyTorch's streams do not synchronise with it, so a program that
/// relies on more would fail on a GPU.
cudaError_t cudaMemcpy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind) {
  if (const auto error = forbidden("cudaMemcpy"))
    return error;
  if (const auto error = copy(to, from, bytes, nullptr))
    return error;
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void *to, int value, std::size_t bytes, cudaStream_t stream) {
  count(Counter::memset);
  return launch(stream, Kind::other, fill_job(to, value, bytes));
}

cudaError_t cudaMemset(void *to, int value, std::size_t bytes) {
  if (const auto error = forbidden("cudaMemset"))
    return error;
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
}
