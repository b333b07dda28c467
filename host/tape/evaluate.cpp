#include "tape/recording.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty_strided.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <string_view>

/// The first pass: which ops there are, what they give, and who shares memory with whom. Storages
/// say that, never names of ops: dropout in eval may return its argument, or a copy.

namespace tracehost::tape {
namespace {

using Kind = Memory::Kind;

bool draws(const jit::Node &node) {
  const auto handle = c10::Dispatcher::singleton().findSchema(
      {node.schema().name(), node.schema().overload_name()});
  return handle && handle->hasTag(at::Tag::nondeterministic_seeded);
}

at::Tensor copy_of(const at::Tensor &t) {
  at::Tensor copy = at::empty_strided(t.sizes(), t.strides(), t.options());
  copy.copy_(t);
  return copy;
}

template <class T, class F> c10::IValue list_of(const std::vector<c10::IValue> &items, F get) {
  c10::List<T> list;
  for (const c10::IValue &item : items)
    list.push_back(get(item));
  return list;
}

c10::IValue construct_list(const jit::Node &node, const std::vector<c10::IValue> &items) {
  const auto type = node.output()->type()->expectRef<c10::ListType>().getElementType();
  switch (type->kind()) {
  case c10::TypeKind::IntType:
    return list_of<std::int64_t>(items, [](const c10::IValue &v) { return v.toInt(); });
  case c10::TypeKind::FloatType:
    return list_of<double>(items, [](const c10::IValue &v) { return v.toDouble(); });
  case c10::TypeKind::BoolType:
    return list_of<bool>(items, [](const c10::IValue &v) { return v.toBool(); });
  case c10::TypeKind::TensorType:
    return list_of<at::Tensor>(items, [](const c10::IValue &v) { return v.toTensor(); });
  case c10::TypeKind::OptionalType:
    return list_of<std::optional<at::Tensor>>(items, [](const c10::IValue &v) {
      return v.isNone() ? std::nullopt : std::optional(v.toTensor());
    });
  default:
    give_up("a list of " + type->str());
  }
}

class Evaluation {
public:
  explicit Evaluation(const jit::Graph &graph) : graph_(graph) {}

  Recorded run(c10::ArrayRef<c10::IValue> inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const at::Tensor copy = copy_of(inputs[i].toTensor());
      found_.claim(copy, Kind::input);
      found_.values[graph_.inputs()[i]] = copy;
    }
    for (const jit::Node *node : graph_.nodes())
      evaluate(*node);
    find_outputs();
    find_last_uses();
    return std::move(found_);
  }

private:
  void evaluate(const jit::Node &node) {
    if (!node.blocks().empty())
      give_up("a loop or a branch");
    std::vector<c10::IValue> arguments;
    for (const jit::Value *input : node.inputs())
      arguments.push_back(found_.values.at(input));
    switch (node.kind()) {
    case c10::prim::Constant: {
      c10::IValue value = *jit::toIValue(node.output());
      if (value.isTensor())
        found_.claim(value.toTensor(), Kind::constant);
      found_.values[node.output()] = std::move(value);
      return;
    }
    case c10::prim::ListConstruct:
      found_.values[node.output()] = construct_list(node, arguments);
      return;
    case c10::prim::ListUnpack: {
      const auto list = arguments[0].toListRef();
      for (std::size_t i = 0; i < node.outputs().size(); ++i)
        found_.values[node.outputs()[i]] = list[i];
      return;
    }
    default:
      call(node, std::move(arguments));
    }
  }

  void call(const jit::Node &node, std::vector<c10::IValue> arguments) {
    const std::string name = node.kind().toQualString();
    const auto *schema = node.maybeSchema();
    if (!schema || !std::string_view(name).starts_with("aten::"))
      give_up(name);
    if (schema->is_mutable())
      give_up(name + " writes");
    if (draws(node))
      give_up(name + " draws");
    node.getOperation()(arguments);
    const std::size_t first = arguments.size() - node.outputs().size();
    for (std::size_t i = 0; i < node.outputs().size(); ++i) {
      c10::IValue &value = arguments[first + i];
      if (value.isTensor())
        note_result(name, value.toTensor(), *node.outputs()[i]);
      else if (value.isTensorList())
        for (const at::Tensor &t : value.toTensorVector())
          note_element(name, t);
      else if (name != "aten::size" && name != "aten::dim" && name != "aten::numel")
        give_up(name + " reads a value");
      found_.values[node.outputs()[i]] = std::move(value);
    }
  }

  void note_result(const std::string &name, const at::Tensor &t, const jit::Value &value) {
    if (!t.defined() || !t.has_storage() || t.layout() != at::kStrided || !t.device().is_cpu())
      give_up(name + " gives no plain tensor");
    const bool is_new = !found_.knows(t);
    const std::size_t root = found_.claim(t, Kind::planned);
    if (is_new)
      found_.roots[root].made = &value;
  }
  void note_element(const std::string &name, const at::Tensor &t) const {
    if (!found_.knows(t)) // a list of views is nothing to do
      give_up(name + " gives a list");
  }

  void find_outputs() {
    for (const jit::Value *output : graph_.outputs()) {
      const c10::IValue &value = found_.values.at(output);
      if (!value.isTensor())
        give_up("an output that is no tensor");
      Memory &root = found_.roots[found_.root_of(value.toTensor())];
      if (output->node() == graph_.param_node())
        continue;
      if (root.made != output)
        give_up("an output that is a view");
      root.kind = Kind::fresh;
    }
  }

  void find_last_uses() {
    for (const jit::Node *node : graph_.nodes())
      for (const jit::Value *input : node->inputs())
        each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
          if (t.defined())
            found_.roots[found_.root_of(t)].last = node;
        });
  }

  const jit::Graph &graph_;
  Recorded found_;
};

} // namespace

std::size_t Recorded::claim(const at::Tensor &t, Kind kind) {
  const auto [found, is_new] = by_storage.emplace(t.storage().unsafeGetStorageImpl(), roots.size());
  if (is_new)
    roots.push_back({kind, t.storage().nbytes(), nullptr, nullptr, {}});
  return found->second;
}

Recorded evaluate(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs) {
  return Evaluation(graph).run(inputs);
}

} // namespace tracehost::tape
