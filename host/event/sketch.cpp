#include "event/sketch.h"

namespace tracehost {

Sketch::Sketch(const Signature &signature) : parameters(signature.parameters) {
  if (signature.nodes.size() > most_nodes)
    return;
  for (std::size_t i = 0; i < signature.nodes.size(); ++i) {
    const tracehost::Node node = signature.nodes[i]; // a copy of a container's has its type as text
    Node made{.kind = node.kind, .end = node.end, .text = {}, .path = {}};
    if (node.kind == Kind::tensor)
      made.tensor = static_cast<std::int32_t>(node.payload.slot);
    else
      made.text = text(signature, node);
    if (node.kind == Kind::tensor || node.kind == Kind::integer || node.kind == Kind::real)
      made.path = path(signature, i);
    nodes.push_back(std::move(made));
  }
  for (const TensorMeta &meta : signature.slots)
    tensors.push_back({meta.dtype, {meta.sizes.begin(), meta.sizes.end()}});
}

} // namespace tracehost
