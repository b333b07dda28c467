#include "call/python_trace.h"
#include "pytree/leaf.h"
#include "pytree/user_type.h"

#include <algorithm>

/// The part of PythonCall that takes objects of users' types as others than their own: wider ones,
/// which a trace is for.

namespace tracehost::python {
namespace {

/// By root: the atom of an object of a user's type; null for other roots.
std::vector<const PyAtom *> user_types(const Signature &signature) {
  std::vector<const PyAtom *> result;
  for (const Node &node : signature.nodes)
    if (node.reserved[0])
      result.push_back(node.reserved[0] == kTypedRoot
                           ? static_cast<const PyAtom *>(node.payload.atom)
                           : nullptr);
  return result;
}

bool any(const std::vector<const PyAtom *> &types) {
  return std::any_of(types.begin(), types.end(), [](const PyAtom *type) { return type; });
}

/// Puts the types of `joined`, and the sizes that tensors have with them, in `earlier`. Requires:
/// trees of the same nodes.
void put_types(Signature &earlier, const Signature &joined) {
  for (std::size_t i = 0; i < earlier.nodes.size(); ++i) {
    Node &node = earlier.nodes[i];
    const Node &with = joined.nodes[i];
    const bool is_typed = node.reserved[0] == kTypedRoot && with.reserved[0] == kTypedRoot;
    if (!is_typed)
      continue;
    node.payload.atom = with.payload.atom;
    const std::size_t around = i == 0 ? i : i - 1;
    if (earlier.nodes[around].kind != Kind::custom || joined.nodes[around].kind != Kind::custom)
      continue;
    for (std::size_t t = i + 1; t < earlier.nodes[around].end; ++t)
      if (earlier.nodes[t].kind == Kind::tensor && joined.nodes[t].kind == Kind::tensor)
        earlier.slots[earlier.nodes[t].payload.slot] = joined.slots[joined.nodes[t].payload.slot];
  }
  earlier.atoms.insert(earlier.atoms.end(), joined.atoms.begin(), joined.atoms.end());
}

} // namespace

/// Gives `signature` these types, by root. Its dynamic dimensions stay dynamic.
Flattened PythonTrace::retype(Signature &signature, const std::vector<PyObject *> &types) {
  UserValues values;
  for (std::size_t root = 0; root < types.size(); ++root)
    if (types[root])
      values.set_type(flattened_.roots[root], types[root]);
  Flattened found;
  Signature made = flatten_as(values, found);
  for (std::size_t slot = 0; slot < std::min(made.slots.size(), signature.slots.size()); ++slot)
    for (std::size_t d = 0; d < made.slots[slot].sizes.size(); ++d)
      if (made.slots[slot].sizes.size() == signature.slots[slot].sizes.size() &&
          signature.slots[slot].sizes[d] == kAnySize)
        made.slots[slot].make_dynamic(d);
  signature = std::move(made);
  return found;
}

/// Makes of `signature`'s types those of `specialization` that are above them. Nothing where there
/// are none: then no tensor is another.
Flattened PythonTrace::cast_to(const Signature &specialization, Signature &signature) {
  const auto now = user_types(signature), wanted = user_types(specialization);
  if (!any(now) || now.size() != wanted.size() || now.size() != flattened_.roots.size())
    return {};
  std::vector<PyObject *> types;
  bool changes = false;
  for (std::size_t root = 0; root < now.size(); ++root) {
    const bool above = now[root] && wanted[root] && !wanted[root]->same(*now[root]) &&
                       wanted[root]->covers(*now[root]);
    const PyAtom *type = above ? wanted[root] : now[root];
    types.push_back(type ? type->user_type() : nullptr);
    changes |= above;
  }
  return changes ? retype(signature, types) : Flattened();
}

bool PythonTrace::join(Signature &earlier, Signature &signature) {
  const auto now = user_types(signature), before = user_types(earlier);
  if (!any(now) || now.size() != before.size() || now.size() != flattened_.roots.size())
    return true;
  std::vector<Owned> made;
  std::vector<PyObject *> types;
  for (std::size_t root = 0; root < now.size(); ++root) {
    types.push_back(now[root] ? now[root]->user_type() : nullptr);
    if (!now[root] || !before[root] || before[root]->same(*now[root]))
      continue;
    made.push_back(common_supertype(now[root]->user_type(), before[root]->user_type()));
    if (!made.back())
      return false;
    types.back() = made.back().get();
  }
  if (made.empty())
    return true;
  retype(signature, types);
  if (signature.nodes.size() != earlier.nodes.size())
    return false;
  put_types(earlier, signature);
  return true;
}

void PythonTrace::adopt(const Signature &signature, std::vector<at::Tensor> &slots) {
  const auto types = user_types(signature);
  if (!any(types) || types.size() != flattened_.roots.size())
    return;
  values_ = {};
  for (std::size_t root = 0; root < types.size(); ++root)
    if (types[root])
      values_.set_type(flattened_.roots[root], types[root]->user_type());
  flatten(slots);
}

} // namespace tracehost::python
