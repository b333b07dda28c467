#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

/// Which operators a graph of a file may have.
///
/// Those of PyTorch that compute; not those that write or map files, print, talk to other
/// processes, run kernels in Python, or take sizes and addresses without a check. A library's own,
/// where the manifest names the library: what they do is the library's matter.

namespace tracehost::archive {

/// Throws Error, which names the operator. `libraries`: of the manifest.
void check_operators(torch::jit::Block *block, const std::vector<std::string> &libraries);

} // namespace tracehost::archive
