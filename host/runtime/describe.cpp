#include "runtime/describe.h"

#include "archive/archive.h"
#include "runtime/walk.h"
#include "signature/native_atoms.h"

#include <cstddef>
#include <string>

namespace tracehost::runtime {
namespace {

/// Reads a tree of nodes into Specs.
class Describer {
public:
  Describer(const std::vector<Node> &nodes, const std::vector<TensorMeta> &metas)
      : nodes_(nodes), metas_(metas) {}

  bool done() const { return at_ >= nodes_.size(); }
  Spec next();

private:
  Spec tensor(const Node &node) const;
  Spec leaf(const Node &node) const;
  Spec sequence(const Node &node, Value::Kind kind);
  Spec map(const Node &node);

  const std::vector<Node> &nodes_;
  const std::vector<TensorMeta> &metas_;
  std::size_t at_ = 0;
};

Spec Describer::tensor(const Node &node) const {
  Spec spec{.kind = Value::Kind::tensor};
  if (node.payload.slot >= metas_.size())
    return spec;
  const TensorMeta &meta = metas_[node.payload.slot];
  spec.dtype = meta.dtype;
  if (node.reserved[1] == archive::kComputed) { // a number, for the caller
    spec.kind = meta.dtype == at::kBool                 ? Value::Kind::boolean
                : at::isIntegralType(meta.dtype, false) ? Value::Kind::integer
                                                        : Value::Kind::real;
    return spec;
  }
  spec.device = meta.device;
  for (const std::int64_t size : meta.sizes)
    spec.sizes.push_back(size == tracehost::kAnySize ? Spec::kAnySize : size);
  return spec;
}

Spec Describer::leaf(const Node &node) const {
  Spec spec;
  spec.value = value_of({node}, {});
  spec.kind = spec.value->kind();
  return spec;
}

Spec Describer::sequence(const Node &node, Value::Kind kind) {
  Spec spec{.kind = kind};
  const std::uint32_t end = node.end;
  while (at_ < end)
    spec.items.push_back(next());
  return spec;
}

Spec Describer::map(const Node &node) {
  Spec spec{.kind = Value::Kind::map};
  const std::uint32_t end = node.end;
  const auto *type = dynamic_cast<const ContainerClass *>(node.payload.atom);
  for (std::size_t i = 0; at_ < end; ++i) {
    if (node.kind != Kind::dict) {
      spec.keys.push_back(type && i < type->fields().size() ? type->fields()[i] : "");
    } else {
      const Value key = *leaf(nodes_[at_]).value;
      spec.keys.push_back(key.kind() == Value::Kind::string ? key.string() : text(key));
      at_ = nodes_[at_].end;
    }
    spec.items.push_back(next());
  }
  return spec;
}

Spec Describer::next() {
  const Node node = nodes_[at_++];
  const auto *type =
      node.is_container() ? dynamic_cast<const ContainerClass *>(node.payload.atom) : nullptr;
  switch (node.kind) {
  case Kind::tensor:
    return tensor(node);
  case Kind::tuple:
    if (type && type->form() == ContainerClass::Form::named_tuple)
      return map(node);
    return sequence(node, Value::Kind::tuple);
  case Kind::list:
    return sequence(node, Value::Kind::list);
  case Kind::dict:
  case Kind::record:
    return map(node);
  default:
    at_ = node.end;
    return leaf(node);
  }
}

} // namespace

std::vector<Parameter> parameters_of(const Binder &binder) {
  std::vector<Parameter> result;
  for (std::size_t i = 0; i < binder.size(); ++i) {
    Parameter parameter{.name = binder.parameters()->names[i],
                        .kind = static_cast<Parameter::Kind>(binder.kind(i))};
    const bool spreads = binder.kind(i) == Parameters::Kind::var_positional ||
                         binder.kind(i) == Parameters::Kind::var_keyword;
    if (const auto &given = binder.default_of(i); given && !spreads)
      parameter.default_value = value_of(given->nodes, {});
    result.push_back(std::move(parameter));
  }
  return result;
}

GraphSpec spec_of(const Specialization &specialization) {
  GraphSpec result;
  const Signature &signature = specialization.signature;
  Describer arguments(signature.nodes, signature.slots);
  while (!arguments.done())
    result.arguments.push_back(arguments.next());
  Describer results(specialization.outputs.nodes, archive::state(specialization).outputs);
  if (!results.done())
    result.result = results.next();
  return result;
}

} // namespace tracehost::runtime
