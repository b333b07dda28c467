#pragma once

#include "capture/device.h"

#include <optional>
#include <string>

namespace tracehost::capture {

/// The function that the plug-in exports. `built_for`: kPluginBuild of the caller; null, if the
/// plug-in is of another build.
using PluginEntry = GraphDevice *(const char *built_for);
constexpr const char *kPluginEntry = "tracehost_graph_device";
/// Versions of tracehost and torch: they share C++ types.
constexpr const char *kPluginBuild = TRACEHOST_VERSION " torch " TRACEHOST_BUILT_TORCH;

/// The CUDA device of the library libtracehost_cuda.so, which lies beside libtracehost.so. Loaded
/// at the first request of the process. Null, and `why`: there is none. Any thread.
GraphDevice *plugin_device(std::string &why);

/// Unbreaking on the plug-in's device, if `needed` and there is one.
class QuietWaits {
public:
  explicit QuietWaits(bool needed) {
    std::string none;
    if (GraphDevice *device = needed ? plugin_device(none) : nullptr)
      waits_.emplace(*device);
  }

private:
  std::optional<Unbreaking> waits_;
};

} // namespace tracehost::capture
