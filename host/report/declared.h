#pragma once

#include "report/finding.h"

#include <optional>
#include <set>
#include <span>
#include <string>

namespace tracehost::report {

/// An input_signature that takes all of some calls.
struct Declared {
  std::string text; ///< `[TensorSpec([32, None], torch.float32), TensorSpec([], torch.int64)]`
  std::set<std::string> numbers; ///< paths of Python numbers that it makes tensors
};

/// The narrowest, by what may be declared (docs/guides/input-signature.md); sizes that differed are
/// None, Python numbers that differed are 0-dim tensors. nullopt where there is none: a Python
/// value that is no default, another dtype, a size that the body needs as a number, a call too
/// large to keep.
std::optional<Declared> declare(std::span<const TraceRecord> calls);

} // namespace tracehost::report
