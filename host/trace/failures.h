#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace tracehost::trace {

/// Whether a node that has failed fails without data as well: for its sizes, dtypes and numbers.
/// False where that is not known. Requires: its inputs' types have their sizes.
bool fails_by_sizes(torch::jit::Node &node);

} // namespace tracehost::trace
