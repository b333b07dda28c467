#include "archive/graph_record.h"
#include "archive/graph_values.h"
#include "program/places.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tracehost::archive {

namespace jit = torch::jit;

namespace {

std::optional<Tag> tag_of(const jit::Node &node) {
  switch (node.kind()) {
  case c10::prim::Constant:
    return Tag::constant;
  case c10::prim::If:
    return Tag::branch;
  case c10::prim::Loop:
    return Tag::loop;
  case c10::prim::ListConstruct:
    return Tag::list;
  case c10::prim::ListUnpack:
    return Tag::unpack_list;
  case c10::prim::TupleConstruct:
    return Tag::tuple;
  case c10::prim::TupleUnpack:
    return Tag::unpack_tuple;
  case c10::prim::TupleIndex:
    return Tag::element;
  case c10::prim::Uninitialized:
    return Tag::nothing;
  default:
    return std::nullopt;
  }
}

bool is_default(jit::Value &value, const c10::Argument &argument) {
  if (!argument.default_value() || value.node()->kind() != c10::prim::Constant)
    return false;
  const auto constant = jit::toIValue(&value);
  return constant && constant->type()->kind() == argument.default_value()->type()->kind() &&
         !constant->isTensor() && *constant == *argument.default_value();
}

} // namespace

bool set_types(jit::Node &node, const c10::FunctionSchema &schema) {
  if (!node.matches(schema))
    return false;
  c10::TypeEnv types;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i)
    if (schema.arguments()[i].type()->hasFreeVariables())
      c10::matchTypeVariables(schema.arguments()[i].type(), node.input(i)->type(), types);
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    const c10::TypePtr type = c10::tryEvalTypeVariables(schema.returns()[i].type(), types);
    if (!type)
      return false;
    node.output(i)->setType(plain_type(type));
  }
  return true;
}

/// One graph, as it is written.
class GraphWriter::Body {
public:
  explicit Body(GraphWriter &writer) : writer_(writer) {}

  ByteWriter write(jit::Graph &graph) {
    to_.number(graph.inputs().size());
    for (jit::Value *input : graph.inputs()) {
      input->setType(c10::TensorType::get());
      define(input);
    }
    block(*graph.block());
    return std::move(to_);
  }

private:
  void define(const jit::Value *value) { values_.emplace(value, values_.size()); }
  void use(const jit::Value *value) { to_.number(values_.size() - values_.at(value)); }
  void use(c10::ArrayRef<jit::Value *> values) {
    for (const jit::Value *value : values)
      use(value);
  }
  void tag(Tag tag) { to_.number(static_cast<std::uint64_t>(tag)); }

  void type(jit::Value &value) {
    value.setType(plain_type(value.type()));
    if (!write_type(to_, value.type()))
      throw Error(fmt::format("it has a value of type {}, which an archive cannot store",
                              value.type()->repr_str()));
  }

  void types(c10::ArrayRef<jit::Value *> values) {
    to_.number(values.size());
    for (jit::Value *value : values)
      type(*value);
  }

  void block(jit::Block &block) {
    for (jit::Node *node : block.nodes()) {
      if (const auto known = tag_of(*node))
        tagged(*node, *known);
      else
        op(*node);
      place(*node);
    }
    tag(Tag::end);
    to_.number(block.outputs().size());
    use(block.outputs());
  }

  void place(const jit::Node &node) {
    const auto [found, is_new] = writer_.places_.emplace(place_of(node), writer_.places_.size());
    to_.number(found->second);
  }

  void op(jit::Node &node) {
    const jit::Operator *known = node.maybeOperator();
    if (!known)
      throw Error(fmt::format("it has operator '{}', which has no schema here",
                              node.kind().toQualString()));
    const c10::FunctionSchema &schema = known->schema();
    StoredOp op{schema.name(), schema.overload_name(), {}};
    for (std::size_t i = 0; i < node.inputs().size(); ++i)
      if (i < schema.arguments().size())
        op.arguments.push_back(
            {schema.arguments()[i].name(), is_default(*node.input(i), schema.arguments()[i])});
      else
        op.arguments.push_back({"", false});
    if (node.outputs().size() != schema.returns().size() || !set_types(node, schema))
      throw Error(fmt::format("it has operator '{}' with other outputs than its schema",
                              node.kind().toQualString()));
    const auto [found, is_new] = writer_.ops_.emplace(std::move(op), writer_.ops_.size());
    tag(Tag::op);
    to_.number(found->second);
    use(node.inputs());
    for (const jit::Value *output : node.outputs())
      define(output);
  }

  void tagged(jit::Node &node, Tag known) {
    tag(known);
    switch (known) {
    case Tag::constant:
      constant(node);
      break;
    case Tag::branch:
      branch(node);
      break;
    case Tag::loop:
      loop(node);
      break;
    case Tag::list:
      type(*node.output());
      to_.number(node.inputs().size());
      use(node.inputs());
      break;
    case Tag::unpack_list:
    case Tag::unpack_tuple:
      use(node.input());
      types(node.outputs());
      break;
    case Tag::tuple:
      to_.number(node.inputs().size());
      use(node.inputs());
      break;
    case Tag::element:
      element(node);
      break;
    default:
      type(*node.output());
    }
    for (const jit::Value *output : node.outputs())
      define(output);
  }

  void constant(const jit::Node &node) {
    const auto value = jit::toIValue(node.output());
    if (!value || !write_constant(to_, *value, in_file_))
      throw Error(fmt::format("it has a constant of type {}, which an archive cannot store",
                              node.output()->type()->repr_str()));
  }

  void branch(jit::Node &node) {
    use(node.input());
    types(node.outputs());
    for (jit::Block *side : node.blocks())
      block(*side);
  }

  void loop(jit::Node &node) {
    to_.number(node.outputs().size());
    use(node.inputs());
    jit::Block &body = *node.blocks()[0];
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      jit::Value &value = *body.inputs()[i + 1];
      type(value);
      node.output(i)->setType(value.type());
    }
    for (const jit::Value *input : body.inputs())
      define(input);
    block(body);
  }

  void element(const jit::Node &node) {
    const auto index = jit::constant_as<std::int64_t>(node.input(1));
    if (!index)
      throw Error("it takes an element of a tuple by an index that is no constant");
    to_.integer(*index);
    use(node.input(0));
  }

  GraphWriter &writer_;
  const NumbersInFile in_file_{
      [this](const at::Tensor &tensor) { return writer_.number_of_(tensor, "constant"); },
      [this](const at::Generator &generator) { return writer_.generator(generator); }};
  ByteWriter to_;
  std::unordered_map<const jit::Value *, std::uint64_t> values_;
};

std::uint64_t GraphWriter::generator(const at::Generator &generator) {
  const auto found = std::find_if(generators_.begin(), generators_.end(),
                                  [&](const auto &known) { return known.first == generator; });
  if (found != generators_.end())
    return static_cast<std::uint64_t>(found - generators_.begin());
  const std::uint64_t state = number_of_(generator.get_state(), "generator");
  generators_.emplace_back(generator, state);
  return generators_.size() - 1;
}

std::size_t GraphWriter::add(jit::Graph &graph) {
  graphs_.push_back(Body(*this).write(graph));
  return graphs_.size() - 1;
}

std::string GraphWriter::bytes(const TensorTable &tensors) const {
  ByteWriter all;
  const auto in_order = [](const auto &numbers) {
    std::vector<const typename std::decay_t<decltype(numbers)>::key_type *> result(numbers.size());
    for (const auto &[key, number] : numbers)
      result[number] = &key;
    return result;
  };
  all.number(places_.size());
  for (const std::string *place : in_order(places_))
    all.text(*place);
  all.number(ops_.size());
  for (const StoredOp *op : in_order(ops_)) {
    all.text(op->name);
    all.text(op->overload);
    all.number(op->arguments.size());
    for (const GivenArgument &argument : op->arguments) {
      all.text(argument.name);
      all.number(argument.is_default ? 1 : 0);
    }
  }
  tensors.write(all);
  all.number(generators_.size());
  for (const auto &[generator, state] : generators_)
    all.number(state);
  all.number(graphs_.size());
  for (const ByteWriter &graph : graphs_)
    all.text(graph.bytes());
  return all.bytes();
}

} // namespace tracehost::archive
