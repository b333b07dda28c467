#include "runtime/walk.h"

#include "signature/native_atoms.h"
#include "signature/tensor_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tracehost::runtime {
namespace {

bool same_real(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

bool takes(const TensorMeta &meta, const at::Tensor &t, bool requires_grad) {
  return fits(meta, t) && (!requires_grad || t.requires_grad() == meta.requires_grad);
}

/// A string, a dtype, or a member of an enum by its name: `Color.RED`.
bool is_atom(const Atom &atom, const Value &value) {
  const auto *literal = dynamic_cast<const Literal *>(&atom);
  if (!literal)
    return false;
  switch (literal->type()) {
  case Literal::Type::string:
    return value.kind() == Value::Kind::string && value.string() == literal->value();
  case Literal::Type::torch:
    return value.kind() == Value::Kind::dtype && dtype_name(value.dtype()) == literal->value();
  case Literal::Type::member:
    return value.kind() == Value::Kind::string && value.string() == literal->text();
  default:
    return false;
  }
}

class Matcher {
public:
  Matcher(const Signature &signature, bool requires_grad, Slots &slots)
      : node_(signature.nodes.data()), metas_(signature.slots), requires_grad_(requires_grad),
        slots_(slots) {}

  bool value(const Value &value);
  bool extra(const Bound &bound);
  bool keywords(const Bound &bound);
  bool is_default(const archive::Value &given);

private:
  bool tensor(const Node &node, const Value &value);
  bool container(const Node &node, const Value &value);
  bool fields(const Node &node, const Map &map);
  bool dict(const Node &node, const Map &map);
  /// The node of a dict's key is `key`.
  static bool is_key(const Node &node, std::string_view key) {
    const auto *name =
        node.kind == Kind::atom ? dynamic_cast<const Literal *>(node.payload.atom) : nullptr;
    return name && name->type() == Literal::Type::string && name->value() == key;
  }

  const Node *node_;
  const std::vector<TensorMeta> &metas_;
  const bool requires_grad_;
  Slots &slots_;
  std::size_t at_ = 0; ///< the node that the next value is compared with
};

bool Matcher::tensor(const Node &node, const Value &value) {
  if (!value.is_tensor())
    return false;
  const at::Tensor &t = value.tensor();
  const std::uint32_t slot = node.payload.slot;
  if (slot < slots_.size()) // seen before: must be the same tensor
    return slots_[slot]->is_same(t);
  if (!t.defined() || !takes(metas_[slot], t, requires_grad_))
    return false;
  slots_.push_back(&t);
  return true;
}

bool Matcher::value(const Value &value) {
  const Node &node = node_[at_++];
  switch (node.kind) {
  case Kind::tensor:
    return tensor(node, value);
  case Kind::none:
    return value.is_none();
  case Kind::boolean:
    return value.kind() == Value::Kind::boolean && value.boolean() == (node.payload.integer != 0);
  case Kind::integer:
    return value.kind() == Value::Kind::integer && value.integer() == node.payload.integer;
  case Kind::real:
    return value.kind() == Value::Kind::real && same_real(value.real(), node.payload.real);
  case Kind::device:
    return value.kind() == Value::Kind::device &&
           device_code(value.device()) == node.payload.integer;
  case Kind::atom:
    return is_atom(*node.payload.atom, value);
  case Kind::tuple:
  case Kind::list:
  case Kind::dict:
  case Kind::record:
    return container(node, value) && at_ == node.end;
  default:
    return false; // nothing that a C++ value can be
  }
}

bool Matcher::container(const Node &node, const Value &value) {
  if (node.kind == Kind::record || (node.kind == Kind::tuple && value.kind() == Value::Kind::map))
    return value.kind() == Value::Kind::map && fields(node, value.map());
  if (node.kind == Kind::dict)
    return value.kind() == Value::Kind::map && dict(node, value.map());
  const auto wanted = node.kind == Kind::tuple ? Value::Kind::tuple : Value::Kind::list;
  const auto *type = dynamic_cast<const ContainerClass *>(node.payload.atom);
  if (value.kind() != wanted || !type || type->form() == ContainerClass::Form::named_tuple)
    return false;
  for (const Value &item : wanted == Value::Kind::tuple ? value.tuple().items : value.list().items)
    if (at_ >= node.end || !this->value(item))
      return false;
  return true;
}

/// A dataclass or named tuple, by the names of its fields.
bool Matcher::fields(const Node &node, const Map &map) {
  const auto *type = dynamic_cast<const ContainerClass *>(node.payload.atom);
  if (!type || type->fields().size() != map.items.size())
    return false;
  for (const std::string &field : type->fields()) {
    const Value *item = map.find(field);
    if (!item || at_ >= node.end || !value(*item))
      return false;
  }
  return true;
}

bool Matcher::dict(const Node &node, const Map &map) {
  std::size_t count = 0;
  for (; at_ < node.end; ++count) {
    const Node &key = node_[at_++];
    const Value *item = nullptr;
    if (count < map.items.size() && is_key(key, map.items[count].first)) // in the same order
      item = &map.items[count].second;
    else
      for (const auto &[name, candidate] : map.items)
        if (is_key(key, name))
          item = &candidate;
    if (!item || !value(*item))
      return false;
  }
  return count == map.items.size();
}

bool Matcher::extra(const Bound &bound) {
  const Node &node = node_[at_++];
  for (const Value *item : bound.extra)
    if (at_ >= node.end || !value(*item))
      return false;
  return at_ == node.end;
}

bool Matcher::keywords(const Bound &bound) {
  const Node &node = node_[at_++];
  std::size_t count = 0;
  for (; at_ < node.end; ++count) {
    const Node &key = node_[at_++];
    const Value *item = nullptr;
    for (const Argument *argument : bound.keywords)
      if (is_key(key, argument->name))
        item = &argument->value;
    if (!item || !value(*item))
      return false;
  }
  return count == bound.keywords.size();
}

/// A default has no tensors: its nodes are compared.
bool Matcher::is_default(const archive::Value &given) {
  const std::size_t start = at_, end = node_[start].end;
  at_ = end;
  if (end - start != given.nodes.size())
    return false;
  for (std::size_t i = start; i < end; ++i) {
    Node own = node_[i];
    own.end -= static_cast<std::uint32_t>(start);
    if (!same(own, given.nodes[i - start]))
      return false;
  }
  return true;
}

/// Tensors of different slots are different tensors.
bool distinct(const Slots &slots) {
  for (std::size_t i = 1; i < slots.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (slots[i]->is_same(*slots[j]))
        return false;
  return true;
}

} // namespace

bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             bool requires_grad, Slots &slots) {
  slots.clear();
  Matcher walk(signature, requires_grad, slots);
  for (std::size_t i = 0; i < binder.size(); ++i) {
    bool same = false;
    if (bound.values[i]) [[likely]]
      same = walk.value(*bound.values[i]);
    else if (binder.kind(i) == Parameters::Kind::var_positional)
      same = walk.extra(bound);
    else if (binder.kind(i) == Parameters::Kind::var_keyword)
      same = walk.keywords(bound);
    else
      same = walk.is_default(*binder.default_of(i));
    if (!same)
      return false;
  }
  return slots.size() == signature.slots.size() && distinct(slots);
}

bool matches(const Signature &signature, const std::vector<Node> &nodes,
             const std::vector<at::Tensor> &tensors, bool requires_grad, Slots &slots) {
  if (tensors.size() != signature.slots.size() ||
      !std::equal(nodes.begin(), nodes.end(), signature.nodes.begin(), signature.nodes.end(), same))
    return false;
  slots.clear();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!takes(signature.slots[i], tensors[i], requires_grad))
      return false;
    slots.push_back(&tensors[i]);
  }
  return true;
}

} // namespace tracehost::runtime
