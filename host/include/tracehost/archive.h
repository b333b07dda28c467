#pragma once

#include "tracehost/function.h"

#include <torch/headeronly/version.h>

#include <memory>
#include <string>
#include <vector>

/// Functions from a file, without Python.
///
///     auto archive = tracehost::Archive::load("digits.thz", {.device = "cuda:0"});
///     at::Tensor scores = archive["predict"](images);
///
/// An archive is code: load only what you trust.

namespace tracehost {
inline namespace TRACEHOST_ABI {

struct LoadOptions {
  std::string device = {}; ///< `cpu`, `cuda:1`; empty: where it was traced
};

/// What `tracehost.save` wrote in Python. A handle, cheap to copy; its Functions live on without
/// it.
class TRACEHOST_API Archive {
public:
  /// Throws ArchiveError, DeviceError; Error where the program was compiled with another PyTorch
  /// than the library was.
  static Archive load(const std::string &path, const LoadOptions &options = {}) {
    return load(path, options, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
  }

  /// Throws ArchiveError where it has none of that name.
  const Function &operator[](const std::string &name) const;
  bool contains(const std::string &name) const;
  std::vector<std::string> names() const;
  const std::string &path() const;
  /// Of what was read: `xxh3:0123...`.
  const std::string &hash() const;

private:
  struct State;
  static Archive load(const std::string &path, const LoadOptions &options, int torch_major,
                      int torch_minor);
  std::shared_ptr<const State> state_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
