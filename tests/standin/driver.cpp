/// A libcuda.so.1: the functions that PyTorch's libcaffe2_nvrtc imports. All succeed and do
/// nothing. Without it PyTorch's CUDA libraries do not load on a machine that has no driver.

extern "C" {

/// In the runtime: a context exists for that device.
int standin_initialised(int device);

// The callers' arguments are of no account.
int cuCtxGetCurrent(...) { return 0; }
int cuCtxSetCurrent(...) { return 0; }
int cuDeviceGet(...) { return 0; }
int cuDeviceGetAttribute(...) { return 0; }
int cuDevicePrimaryCtxRetain(...) { return 0; }
int cuFuncGetAttribute(...) { return 0; }
int cuFuncSetAttribute(...) { return 0; }
int cuFuncSetCacheConfig(...) { return 0; }
int cuLaunchCooperativeKernel(...) { return 0; }
int cuLaunchKernel(...) { return 0; }
int cuLinkAddData_v2(...) { return 0; }
int cuLinkComplete(...) { return 0; }
int cuLinkCreate_v2(...) { return 0; }
int cuModuleGetFunction(...) { return 0; }
int cuModuleLoad(...) { return 0; }
int cuModuleLoadData(...) { return 0; }
int cuModuleLoadDataEx(...) { return 0; }
int cuModuleUnload(...) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(...) { return 0; }
int cuPointerGetAttribute(...) { return 0; }
int cuTensorMapEncodeTiled(...) { return 0; }

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  if (flags)
    *flags = 0;
  if (active)
    *active = standin_initialised(device);
  return 0;
}

int cuGetErrorString(int, const char **text) {
  *text = "error of the simulated driver";
  return 0;
}
}
