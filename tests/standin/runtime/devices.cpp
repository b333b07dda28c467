#include "runtime.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

/// Devices: their number, properties and contexts, and the entry points of the driver.

namespace standin {

namespace {

constexpr int kProcessors = 4;
constexpr int kMajor = 9;

thread_local int current = 0;
std::atomic<bool> contexts[kMostDevices];

long number(const char *name, long otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::atol(text) : otherwise;
}

bool exists(int device) { return device >= 0 && device < switches().devices; }

int driver_function(...) { return 0; }

/// PyTorch asks this to find out, without an initialisation, whether a device is in use.
int context_state(int device, unsigned *flags, int *active) {
  if (flags)
    *flags = 0;
  if (active)
    *active = exists(device) && contexts[device];
  return 0;
}

} // namespace

const Switches &switches() {
  static const Switches read = {
      static_cast<int>(std::clamp(number("STANDIN_DEVICES", 2), 0L, long{kMostDevices})),
      static_cast<std::size_t>(number("STANDIN_MB", 4096)) << 20,
      number("STANDIN_PROTECT", 0) != 0,
      number("STANDIN_LAZY", 0) != 0,
      number("STANDIN_VERBOSE", 0) != 0,
  };
  return read;
}

int current_device() { return current; }

void initialise(int device) { contexts[device] = true; }

} // namespace standin

extern "C" {

/// A context of that device exists; of any device for -1.
int standin_initialised(int device) {
  for (int i = 0; i < standin::switches().devices; ++i)
    if ((device < 0 || device == i) && standin::contexts[i])
      return 1;
  return 0;
}

cudaError_t cudaGetDeviceCount(int *count) {
  *count = standin::switches().devices;
  return *count ? cudaSuccess : standin::fail(cudaErrorNoDevice, "cudaGetDeviceCount");
}

cudaError_t cudaSetDevice(int device) {
  if (!standin::exists(device))
    return standin::fail(cudaErrorInvalidDevice, "cudaSetDevice");
  standin::current = device;
  standin::initialise(device);
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = standin::current;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device) {
  if (!standin::exists(device))
    return standin::fail(cudaErrorInvalidDevice, "cudaGetDeviceProperties");
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Simulated GPU %d", device);
  properties->totalGlobalMem = standin::switches().bytes;
  properties->major = standin::kMajor;
  properties->multiProcessorCount = standin::kProcessors;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = 48 << 10;
  properties->sharedMemPerBlockOptin = 227 << 10;
  properties->regsPerMultiprocessor = 65536;
  properties->l2CacheSize = 1 << 20;
  properties->memoryBusWidth = 64;
  properties->unifiedAddressing = 1;
  properties->managedMemory = 1;
  std::fill_n(properties->maxThreadsDim, 2, 1024);
  properties->maxThreadsDim[2] = 64;
  properties->maxGridSize[0] = 1 << 30;
  std::fill_n(properties->maxGridSize + 1, 2, 65535);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = 0;
  if (attribute == cudaDevAttrComputeCapabilityMajor)
    *value = standin::kMajor;
  if (attribute == cudaDevAttrMultiProcessorCount)
    *value = standin::kProcessors;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  std::snprintf(id, length, "0000:00:%02x.0", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int) {
  *can = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *result) {
  if (standin::switches().verbose)
    std::fprintf(stderr, "standin: driver function %s\n", symbol);
  const bool asks_state = !std::strcmp(symbol, "cuDevicePrimaryCtxGetState");
  *function = asks_state ? reinterpret_cast<void *>(&standin::context_state)
                         : reinterpret_cast<void *>(&standin::driver_function);
  if (result)
    *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
}
