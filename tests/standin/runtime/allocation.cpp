#include "runtime.h"

#include <cstdlib>

/// cudaMalloc and its relatives, for PyTorch's caching allocators.

namespace {

// cudaHostAlloc gives whole pages.
constexpr std::size_t kAlignment = 4096;

} // namespace

extern "C" {

/// Bytes of cudaMalloc that have not been freed.
std::size_t standin_used(int device) { return standin::used_bytes(device); }

cudaError_t cudaMemGetInfo(std::size_t *free, std::size_t *total) {
  standin::initialise(standin::current_device());
  *total = standin::switches().bytes;
  *free = *total - standin::used_bytes(standin::current_device());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **address, std::size_t bytes) {
  standin::count(standin::Counter::malloc);
  standin::initialise(standin::current_device());
  if (const auto error = standin::sticky())
    return standin::fail(error, "cudaMalloc");
  if (const auto error = standin::forbidden("cudaMalloc"))
    return error;
  *address = standin::is_to_fail("cudaMalloc")
                 ? nullptr
                 : standin::allocate(bytes, standin::current_device());
  return *address ? cudaSuccess : standin::fail(cudaErrorMemoryAllocation, "cudaMalloc");
}

/// Waits for all work, as the real function does: work in a queue may still use the memory.
cudaError_t cudaFree(void *address) {
  standin::count(standin::Counter::free);
  if (!address)
    return cudaSuccess;
  {
    standin::Lock lock(standin::queues());
    if (const auto error = standin::forbidden(lock, "cudaFree"))
      return error;
    standin::run_device(lock, -1);
  }
  return standin::release(address) ? cudaSuccess : standin::fail(cudaErrorInvalidValue, "cudaFree");
}

cudaError_t cudaHostAlloc(void **address, std::size_t bytes, unsigned) {
  standin::count(standin::Counter::host_alloc);
  standin::initialise(standin::current_device());
  if (const auto error = standin::forbidden("cudaHostAlloc"))
    return error;
  if (posix_memalign(address, kAlignment, bytes))
    return standin::fail(cudaErrorMemoryAllocation, "cudaHostAlloc");
  standin::add_host_block(*address, bytes);
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void **address, std::size_t bytes) {
  return cudaHostAlloc(address, bytes, 0);
}

cudaError_t cudaFreeHost(void *address) {
  {
    standin::Lock lock(standin::queues());
    standin::run_device(lock, -1);
  }
  standin::remove_host_block(address);
  std::free(address);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void *address, std::size_t bytes, unsigned) {
  standin::initialise(standin::current_device());
  standin::add_host_block(address, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *address) {
  standin::remove_host_block(address);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *address) {
  *attributes = {};
  const bool on_host = standin::is_page_locked(address);
  const bool on_device = standin::is_device(address);
  attributes->type = on_host     ? cudaMemoryTypeHost
                     : on_device ? cudaMemoryTypeDevice
                                 : cudaMemoryTypeUnregistered;
  attributes->device = standin::device_of(address);
  attributes->devicePointer = const_cast<void *>(address);
  attributes->hostPointer = on_host ? const_cast<void *>(address) : nullptr;
  return cudaSuccess;
}
}
