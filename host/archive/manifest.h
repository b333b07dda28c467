#pragma once

#include "archive/archive.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

/// The manifest: what of an archive is no graph and no tensor, as JSON. docs/guides/archives.md
/// shows one.

namespace tracehost::archive {

inline constexpr int kVersion = 2;                         ///< of the format: what is read
inline constexpr const char *kManifest = "tracehost.json"; ///< name of the extra file

/// One Specialization to be written, or as read, before it has a Program.
struct Record {
  Signature signature; ///< without Python; slots and captures
  OutputSpec outputs;
  State state;           ///< without tensors
  std::size_t graph = 0; ///< its number in the file (graph_record.h)
};

struct Manifest {
  int version = kVersion;
  std::string tracehost, torch, payload; ///< payload: hash of all of the file before the manifest
  c10::Device device = at::kCPU;
  std::vector<std::string> libraries;
  using Function = FunctionOf<Record>;
  std::vector<Function> functions;
  std::map<std::string, std::string> metadata; ///< the writer's own: nothing reads it here
};

std::string to_json(const Manifest &manifest);
/// Those of a new tensor of that kind.
c10::DispatchKeySet new_keys(at::ScalarType dtype, at::Layout layout, const c10::Device &device,
                             bool conj, bool neg);
/// Throws Error without the file's name: what is wrong. Nothing in the result points outside of it.
Manifest from_json(const std::string &text);

} // namespace tracehost::archive
