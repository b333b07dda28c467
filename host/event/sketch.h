#pragma once

#include "signature/signature.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tracehost {

/// What reports keep of a call's Signature: texts and sizes, no object and no tensor of the user's.
/// Two objects may have one text: whether two calls had the same ones is in TraceEvent::alike.
struct Sketch {
  static constexpr std::size_t most_nodes = 256; ///< of larger calls nothing is kept

  struct Node {
    Kind kind;
    std::uint32_t end;        ///< as tracehost::Node::end
    std::string text;         ///< a leaf's; of a container its type: `tuple`
    std::string path;         ///< of tensors and numbers
    std::int32_t tensor = -1; ///< index into `tensors`
    bool is_container() const { return kind >= Kind::tuple; }
  };
  struct Tensor {
    at::ScalarType dtype = at::kFloat;
    std::vector<std::int64_t> sizes;
  };

  Sketch() = default;
  explicit Sketch(const Signature &signature);

  bool empty() const { return nodes.empty(); }

  std::shared_ptr<const Parameters> parameters;
  std::vector<Node> nodes;     ///< one for each of Signature::nodes
  std::vector<Tensor> tensors; ///< one for each of Signature::slots
};

} // namespace tracehost
