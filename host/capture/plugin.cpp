#include "capture/plugin.h"

#include <torch/version.h>

#include <dlfcn.h>

#include <mutex>
#include <optional>

namespace tracehost::capture {
namespace {

constexpr const char *kLibrary = "libtracehost_cuda.so";

struct Loaded {
  GraphDevice *device = nullptr;
  std::string why; ///< there is none
};

constinit std::mutex loading;
constinit std::optional<Loaded> loaded; ///< never unloaded: CUDA graphs of it may live until exit

/// In the folder of this library.
std::string path_of_plugin() {
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void *>(&plugin_device), &info) || !info.dli_fname)
    return kLibrary;
  const std::string here = info.dli_fname;
  const auto slash = here.rfind('/');
  return slash == std::string::npos ? kLibrary : here.substr(0, slash + 1) + kLibrary;
}

/// After a capture that failed, the generator of an older torch stays in it. Random ops then raise.
constexpr bool kGeneratorSurvives = TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 15;

Loaded load_plugin() {
  if (!kGeneratorSurvives)
    return {nullptr, "no CUDA graphs before torch 2.15"};
  void *library = dlopen(path_of_plugin().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *error = dlerror();
    return {nullptr, std::string("no CUDA graphs: ") + (error ? error : kLibrary)};
  }
  auto *entry = reinterpret_cast<PluginEntry *>(dlsym(library, kPluginEntry));
  GraphDevice *device = entry ? entry(kPluginBuild) : nullptr;
  if (!device)
    return {nullptr, std::string("no CUDA graphs: ") + kLibrary + " is of another build"};
  return {device, {}};
}

} // namespace

GraphDevice *plugin_device(std::string &why) {
  const std::scoped_lock lock(loading);
  if (!loaded)
    loaded = load_plugin();
  why = loaded->why;
  return loaded->device;
}

} // namespace tracehost::capture
