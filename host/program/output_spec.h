#pragma once

#include "signature/node.h"

#include <vector>

namespace tracehost {

/// The structure of a Function's result: the nodes of a Signature, whose slots are indices into the
/// graph's outputs. A leaf that is no tensor is what it was at the trace.
struct OutputSpec {
  std::vector<Node> nodes;
  std::vector<AtomRef> atoms; ///< owns what `nodes` points to
  std::size_t tensors = 0;    ///< outputs of the graph
};

} // namespace tracehost
