#include "signature/generalize.h"

#include <algorithm>
#include <charconv>

namespace tracehost {
namespace {

bool is_number(const std::string &text) {
  double value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool is_number_type(const std::string &name) {
  return name == "int" || name == "float" || name == "Tensor";
}

} // namespace

bool is_narrower(const Signature &a, const Signature &b) {
  if (a.slots.size() != b.slots.size())
    return false;
  bool narrower = false;
  for (std::size_t i = 0; i < a.slots.size(); ++i) {
    const auto &x = a.slots[i].sizes, &y = b.slots[i].sizes;
    if (!b.slots[i].takes(x))
      return false;
    narrower |= x != y;
  }
  return narrower;
}

bool types_are_narrower(const Signature &a, const Signature &b) {
  if (a.nodes.size() != b.nodes.size())
    return false;
  bool narrower = false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = a.nodes[i], &y = b.nodes[i];
    if (x.kind != y.kind)
      return false;
    if (!x.has_atom() || !x.payload.atom->is_ordered() || x.payload.atom->same(*y.payload.atom))
      continue;
    if (!y.payload.atom->covers(*x.payload.atom))
      return false;
    narrower = true;
  }
  return narrower;
}

bool only_sizes(const std::vector<Difference> &differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference &d) {
    return d.cause == Cause::shape || d.cause == Cause::condition ||
           (d.cause == Cause::capture && d.dimension >= 0);
  });
}

bool only_declarable(const std::vector<Difference> &differences) {
  return std::all_of(differences.begin(), differences.end(), [](const Difference &d) {
    switch (d.cause) {
    case Cause::shape:
    case Cause::rank:
    case Cause::condition:
      return true;
    case Cause::value:
      return is_number(d.before) && is_number(d.after);
    case Cause::type:
      return is_number_type(d.before) && is_number_type(d.after);
    default:
      return false;
    }
  });
}

void generalize(Signature &request, const Signature &earlier) {
  if (request.slots.size() != earlier.slots.size()) // one tensor as two arguments, in one of them
    return;
  for (std::size_t i = 0; i < request.slots.size(); ++i)
    for (std::size_t d = 0;
         d < std::min(request.slots[i].sizes.size(), earlier.slots[i].sizes.size()); ++d)
      if (request.slots[i].sizes[d] != earlier.slots[i].sizes[d])
        request.slots[i].make_dynamic(d);
}

void specialize(Signature &signature, std::uint32_t slot, std::size_t dimension,
                std::int64_t size) {
  TensorMeta &meta = signature.slots[slot];
  meta.sizes[dimension] = size;
  meta.dynamic = std::find(meta.sizes.begin(), meta.sizes.end(), kAnySize) != meta.sizes.end();
}

} // namespace tracehost
