#include "runtime/walk.h"

#include "signature/native_atoms.h"

#include <algorithm>
#include <utility>

/// The slow part of walk.h: values to nodes, and back.

namespace tracehost::runtime {
namespace {

using Form = ContainerClass::Form;

/// Writes nodes for values, beside the nodes of `guide`, as long as they go together.
class Flattener {
public:
  Flattener(const Signature &guide, Signature &made, std::vector<at::Tensor> &slots)
      : guide_(guide), made_(made), slots_(slots) {}

  static constexpr std::size_t nowhere = static_cast<std::size_t>(-1);

  /// `beside`: the guide's node, or nowhere.
  void value(const Value &value, std::size_t beside);
  void extra(const Bound &bound, std::size_t beside);
  void keywords(const Bound &bound, std::size_t beside);
  void given(const archive::Value &value);

private:
  void tensor(const at::Tensor &t);
  void sequence(Kind kind, Form form, const std::vector<Value> &items, std::size_t beside);
  void map(std::vector<std::pair<std::string_view, const Value *>> items, std::size_t beside);
  void leaf(Kind kind, std::int64_t payload) {
    add({.kind = kind, .payload = {.integer = payload}});
  }
  std::size_t add(Node node) {
    made_.nodes.push_back(node);
    made_.nodes.back().end = static_cast<std::uint32_t>(made_.nodes.size());
    return made_.nodes.size() - 1;
  }
  /// The class is the guide's where that is of this kind.
  std::size_t open(Kind kind, Form form, std::size_t beside);
  void close(std::size_t index) {
    made_.nodes[index].end = static_cast<std::uint32_t>(made_.nodes.size());
  }
  const Node *node(std::size_t beside) const {
    return beside < guide_.nodes.size() ? &guide_.nodes[beside] : nullptr;
  }
  /// The next sibling of `beside` in a container that ends at `end`.
  std::size_t next(std::size_t beside, std::size_t end) const {
    if (beside == nowhere || guide_.nodes[beside].end >= end)
      return nowhere;
    return guide_.nodes[beside].end;
  }

  const Signature &guide_;
  Signature &made_;
  std::vector<at::Tensor> &slots_;
};

void Flattener::tensor(const at::Tensor &t) {
  if (!t.defined())
    throw SignatureError("an undefined tensor was passed. Pass std::nullopt for None.", {},
                         "a tensor", "undefined tensor", {});
  const auto found = std::find_if(slots_.begin(), slots_.end(),
                                  [&](const at::Tensor &slot) { return slot.is_same(t); });
  const auto slot = static_cast<std::uint32_t>(found - slots_.begin());
  if (found == slots_.end()) {
    slots_.push_back(t);
    made_.slots.push_back(TensorMeta::of(t));
  }
  add({.kind = Kind::tensor, .payload = {.slot = slot}});
}

std::size_t Flattener::open(Kind kind, Form form, std::size_t beside) {
  Node made{.kind = kind};
  const Node *guide = node(beside);
  const auto *type = guide && guide->kind == kind
                         ? dynamic_cast<const ContainerClass *>(guide->payload.atom)
                         : nullptr;
  if (type && type->form() == form) {
    made.payload.atom = guide->payload.atom; // which outlives the comparison
  } else {
    made_.atoms.push_back(std::make_shared<ContainerClass>(form));
    made.payload.atom = made_.atoms.back().get();
  }
  return add(made);
}

void Flattener::sequence(Kind kind, Form form, const std::vector<Value> &items,
                         std::size_t beside) {
  const std::size_t own = open(kind, form, beside);
  const Node *guide = node(beside);
  const bool along = guide && guide->kind == kind;
  const std::size_t end = along ? guide->end : 0;
  std::size_t child = along && beside + 1 < end ? beside + 1 : nowhere;
  for (const Value &item : items) {
    value(item, child);
    child = next(child, end);
  }
  close(own);
}

void Flattener::map(std::vector<std::pair<std::string_view, const Value *>> items,
                    std::size_t beside) {
  const Node *guide = node(beside);
  const auto *type = guide && (guide->kind == Kind::record || guide->kind == Kind::tuple)
                         ? dynamic_cast<const ContainerClass *>(guide->payload.atom)
                         : nullptr;
  const auto find = [&](std::string_view name) {
    return std::find_if(items.begin(), items.end(),
                        [&](const auto &item) { return item.first == name; });
  };
  if (type && type->fields().size() == items.size() &&
      std::all_of(type->fields().begin(), type->fields().end(),
                  [&](const std::string &field) { return find(field) != items.end(); })) {
    const std::size_t own = open(guide->kind, type->form(), beside);
    std::size_t child = beside + 1;
    for (const std::string &field : type->fields()) {
      value(*find(field)->second, child);
      child = next(child, guide->end);
    }
    close(own);
    return;
  }
  const std::size_t own = open(Kind::dict, Form::dict, beside);
  const bool along = guide && guide->kind == Kind::dict;
  const auto put = [&](std::string_view name, const Value &item, std::size_t child) {
    add(literal(Literal::Type::string, std::string(name), made_.atoms));
    value(item, child);
  };
  if (along) // in the order of the guide, as far as it goes
    for (std::size_t key = beside + 1; key < guide->end;) {
      const std::size_t child = guide_.nodes[key].end;
      const auto *name = guide_.nodes[key].kind == Kind::atom
                             ? dynamic_cast<const Literal *>(guide_.nodes[key].payload.atom)
                             : nullptr;
      if (const auto item = name ? find(name->value()) : items.end(); item != items.end()) {
        put(item->first, *item->second, child);
        items.erase(item);
      }
      key = guide_.nodes[child].end;
    }
  for (const auto &[name, item] : items)
    put(name, *item, nowhere);
  close(own);
}

void Flattener::value(const Value &value, std::size_t beside) {
  switch (value.kind()) {
  case Value::Kind::none:
    return leaf(Kind::none, 0);
  case Value::Kind::tensor:
    return tensor(value.tensor());
  case Value::Kind::integer:
    return leaf(Kind::integer, value.integer());
  case Value::Kind::boolean:
    return leaf(Kind::boolean, value.boolean());
  case Value::Kind::device:
    return leaf(Kind::device, device_code(value.device()));
  case Value::Kind::real:
    add({.kind = Kind::real, .payload = {.real = value.real()}});
    return;
  case Value::Kind::string: {
    const Node *guide = node(beside);
    const auto *literal = guide && guide->kind == Kind::atom
                              ? dynamic_cast<const Literal *>(guide->payload.atom)
                              : nullptr;
    if (literal && literal->type() == Literal::Type::member && literal->text() == value.string())
      add(*guide);
    else
      add(tracehost::literal(Literal::Type::string, value.string(), made_.atoms));
    return;
  }
  case Value::Kind::dtype:
    add(literal(Literal::Type::torch, dtype_name(value.dtype()), made_.atoms));
    return;
  case Value::Kind::list:
    return sequence(Kind::list, Form::list, value.list().items, beside);
  case Value::Kind::tuple:
    return sequence(Kind::tuple, Form::tuple, value.tuple().items, beside);
  case Value::Kind::map:
    break;
  }
  std::vector<std::pair<std::string_view, const Value *>> items;
  for (const auto &[name, item] : value.map().items)
    items.emplace_back(name, &item);
  map(std::move(items), beside);
}

void Flattener::extra(const Bound &bound, std::size_t beside) {
  std::vector<Value> items;
  for (const Value *item : bound.extra)
    items.push_back(*item);
  sequence(Kind::tuple, Form::tuple, items, beside);
}

void Flattener::keywords(const Bound &bound, std::size_t beside) {
  std::vector<std::pair<std::string_view, const Value *>> items;
  for (const Argument *argument : bound.keywords)
    items.emplace_back(argument->name, &argument->value);
  map(std::move(items), beside);
}

void Flattener::given(const archive::Value &value) {
  const auto start = static_cast<std::uint32_t>(made_.nodes.size());
  for (Node node : value.nodes) {
    node.end += start;
    made_.nodes.push_back(node);
  }
  made_.atoms.insert(made_.atoms.end(), value.atoms.begin(), value.atoms.end());
}

/// Reads a tree of nodes.
class Reader {
public:
  Reader(const std::vector<Node> &nodes, c10::ArrayRef<at::IValue> tensors)
      : nodes_(nodes), tensors_(tensors) {}

  Value next();

private:
  Value leaf(const Atom &atom);
  std::vector<Value> items(const Node &node) {
    std::vector<Value> result;
    while (at_ < node.end)
      result.push_back(next());
    return result;
  }
  Value dict(const Node &node);

  const std::vector<Node> &nodes_;
  c10::ArrayRef<at::IValue> tensors_;
  std::size_t at_ = 0;
};

Value Reader::leaf(const Atom &atom) {
  const auto *literal = dynamic_cast<const Literal *>(&atom);
  if (!literal)
    return atom.text();
  if (literal->type() == Literal::Type::string)
    return literal->value();
  if (literal->type() == Literal::Type::torch)
    for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i)
      if (dtype_name(static_cast<at::ScalarType>(i)) == literal->value())
        return static_cast<at::ScalarType>(i);
  return literal->text();
}

Value Reader::dict(const Node &node) {
  Map map;
  while (at_ < node.end) {
    const Value key = next();
    map.items.emplace_back(key.kind() == Value::Kind::string ? key.string() : text(key), next());
  }
  return map;
}

Value Reader::next() {
  const Node &node = nodes_[at_++];
  switch (node.kind) {
  case Kind::tensor: {
    const at::Tensor &t = tensors_[node.payload.slot].toTensor();
    if (node.reserved[1] != archive::kComputed)
      return Value(t);
    const at::Scalar number = t.item();
    return number.isBoolean()         ? Value(number.toBool())
           : number.isIntegral(false) ? Value(number.toLong())
                                      : Value(number.toDouble());
  }
  case Kind::boolean:
    return node.payload.integer != 0;
  case Kind::integer:
    return node.payload.integer;
  case Kind::real:
    return node.payload.real;
  case Kind::device:
    return device_of(node);
  case Kind::atom:
    return leaf(*node.payload.atom);
  case Kind::tuple:
    return Tuple(items(node));
  case Kind::list:
    return List(items(node));
  case Kind::dict:
    return dict(node);
  case Kind::record: {
    Map map;
    for (std::size_t i = 0; at_ < node.end; ++i) {
      const std::string field = node.payload.atom->field(i);
      map.items.emplace_back(field.starts_with('.') ? field.substr(1) : field, next());
    }
    return map;
  }
  default:
    at_ = node.end;
    return {};
  }
}

} // namespace

Signature signature_like(const Signature &guide, const Binder &binder, const Bound &bound,
                         std::vector<at::Tensor> &slots) {
  slots.clear();
  Signature made;
  made.parameters = binder.parameters();
  Flattener flattener(guide, made, slots);
  for (std::size_t i = 0; i < binder.size(); ++i) {
    const std::size_t beside = guide.subtree(i);
    if (bound.values[i])
      flattener.value(*bound.values[i], beside);
    else if (binder.kind(i) == Parameters::Kind::var_positional)
      flattener.extra(bound, beside);
    else if (binder.kind(i) == Parameters::Kind::var_keyword)
      flattener.keywords(bound, beside);
    else
      flattener.given(*binder.default_of(i));
  }
  return made;
}

Value value_of(const std::vector<Node> &nodes, c10::ArrayRef<at::IValue> tensors) {
  if (nodes.size() == 1 && nodes[0].kind == Kind::tensor && nodes[0].reserved[1] == 0) [[likely]]
    return tensors[nodes[0].payload.slot].toTensor();
  return Reader(nodes, tensors).next();
}

} // namespace tracehost::runtime
