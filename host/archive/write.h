#pragma once

#include "archive/archive.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tracehost::archive {

/// One Specialization as it is written.
struct Source {
  std::shared_ptr<const Program> program; ///< owned: its Function may evict the Specialization
  /// Without Python: atoms of signature/native_atoms.h, no guarded slots. Of `captures` one for
  /// each of the Program's inputs behind the slots.
  Signature signature;
  OutputSpec outputs;
  std::vector<TensorMeta> output_metas; ///< by tensor of `outputs`
  std::vector<at::Tensor> captures;     ///< in the order of signature.captures
  std::vector<bool> parameters;         ///< of them, which are a module's parameters
};

using SourceFunction = FunctionOf<Source>;

/// Writes a file that read() reads; `path` is as it was until all of it is on the disk. Equal
/// functions give equal bytes. `source_paths`: graphs keep the user's lines (`net.py:12`).
/// `metadata`: the user's own, UTF-8. Returns which graphs plain PyTorch can't run from the file,
/// and why: `f(x: float32[3]): ...`. Throws Error, for a graph that can't be stored with the op's
/// name and line.
std::vector<std::string> write(const std::string &path,
                               const std::vector<SourceFunction> &functions,
                               bool source_paths = false,
                               const std::map<std::string, std::string> &metadata = {});

} // namespace tracehost::archive
