#include "signature/signature_hash.h"

#include <c10/util/hash.h>

#include <bit>
#include <functional>
#include <string>

namespace tracehost {
namespace {

class Hash {
public:
  template <class T> void add(const T &value) {
    value_ = c10::hash_combine(value_, std::hash<T>()(value));
  }
  void add(const Node &node) {
    add(static_cast<std::uint8_t>(node.kind));
    add(node.end);
    if (node.has_atom())
      add(node.payload.atom->text());
    else if (node.kind == Kind::tensor)
      add(node.payload.slot);
    else if (node.kind == Kind::alias)
      add(node.payload.alias.node);
    else if (node.kind == Kind::real)
      add(std::bit_cast<std::int64_t>(node.payload.real));
    else
      add(node.payload.integer);
  }
  void add(const TensorMeta &meta) {
    add(meta.keys.raw_repr());
    add(static_cast<std::int8_t>(meta.dtype));
    add(meta.device);
    add(meta.requires_grad);
    for (const std::int64_t size : meta.sizes)
      add(size);
    add(meta.sizes.size());
  }
  std::size_t value() const { return value_; }

private:
  std::size_t value_ = 0;
};

} // namespace

std::size_t hash(const Signature &signature) {
  Hash result;
  for (const Node &node : signature.nodes)
    result.add(node);
  for (const TensorMeta &meta : signature.slots)
    result.add(meta);
  return result.value();
}

} // namespace tracehost
