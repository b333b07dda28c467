#pragma once

#include "tracehost/function.h"

#include <torch/headeronly/version.h>

#include <map>
#include <memory>
#include <span>
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
  std::string device = {};                 ///< `cpu`, `cuda:1`; empty: where it was traced
  std::vector<std::string> functions = {}; ///< these alone; empty: all
  /// `exact`: settled calls run on kernel tapes, those on CUDA devices as CUDA graphs; `off`;
  /// empty: as TRACEHOST_OPTIMIZE says, else on kernel tapes alone.
  std::string optimize = {};
  /// The SHA-256 that the file must have, 64 hex digits, as `sha256sum` prints it; empty: any. It
  /// is computed over the bytes that are then read.
  std::string sha256 = {};
};

/// What `tracehost.save` wrote in Python. A handle, cheap to copy; its Functions live on without
/// it. One that holds nothing throws Error when it is asked for anything.
class TRACEHOST_API Archive {
public:
  Archive() = default; ///< holds nothing
  explicit operator bool() const { return state_ != nullptr; }

  /// Throws ArchiveError, DeviceError; Error for another `optimize`, and where the program was
  /// compiled with another PyTorch than the library was.
  static Archive load(const std::string &path, const LoadOptions &options = {}) {
    return load(path, options, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
  }
  /// The same from the bytes of a file, which are copied: a std::string, a std::vector<char>.
  /// `name` stands for the path in messages and figures.
  static Archive load_from_memory(std::span<const char> bytes, const LoadOptions &options = {},
                                  const std::string &name = "memory") {
    return load_from_memory(bytes, options, name, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR);
  }

  /// Throws ArchiveError where it has none of that name.
  const Function &operator[](const std::string &name) const;
  bool contains(const std::string &name) const;
  std::vector<std::string> names() const;
  const std::string &path() const;
  /// The hash of the bytes that were read: `xxh3:0123...`.
  const std::string &hash() const;
  /// Their SHA-256, in hex, if LoadOptions has one; else empty.
  const std::string &sha256() const;
  /// What `tracehost.save(..., metadata={...})` was given.
  const std::map<std::string, std::string> &metadata() const;

  /// The tensors that its functions read besides arguments (parameters, buffers, globals), by name.
  /// They are the archive's own: what is written into them in place is seen by the next call, and
  /// by calls that run meanwhile.
  const std::map<std::string, at::Tensor> &tensors() const;
  /// A new archive of the same graphs, with the given tensors in place of those of the same names.
  /// Needs no file and no trace, and copies nothing. This archive does not change, so running calls
  /// keep its tensors. Throws Error for an unknown name, and for another dtype, other sizes or
  /// another device than the graphs are for.
  Archive with_tensors(const std::map<std::string, at::Tensor> &tensors) const;

private:
  struct State;
  const State &state() const;
  static Archive load_from_memory(std::span<const char> bytes, const LoadOptions &options,
                                  const std::string &name, int torch_major, int torch_minor);
  static Archive load(const std::string &path, const LoadOptions &options, int torch_major,
                      int torch_minor);
  std::shared_ptr<const State> state_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
