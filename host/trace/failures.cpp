#include "trace/failures.h"

#include "shapes/fake_tensor.h"
#include "shapes/without_data.h"
#include "trace/node_runner.h"
#include "trace/op_hook.h"

#include <optional>
#include <vector>

namespace tracehost::trace {

namespace jit = torch::jit;

namespace {

std::optional<c10::IValue> input_without_data(const jit::Value &value) {
  jit::Node *node = const_cast<jit::Node *>(value.node());
  if (node->kind() == c10::prim::Constant)
    return NodeRunner::constant(&value);
  if (node->kind() == c10::prim::ListConstruct) {
    std::vector<c10::IValue> items, outputs;
    for (const jit::Value *input : node->inputs()) {
      const auto item = input_without_data(*input);
      if (!item)
        return std::nullopt;
      items.push_back(*item);
    }
    if (NodeRunner(node).run(std::move(items), outputs) != NodeRunner::Verdict::done)
      return std::nullopt;
    return outputs[0];
  }
  const auto type = value.type()->cast<c10::TensorType>();
  if (!type || !type->scalarType() || !type->device())
    return std::nullopt;
  const auto sizes = type->sizes().concrete_sizes(), strides = type->strides().concrete_sizes();
  if (!sizes || !strides)
    return std::nullopt;
  return shapes::fake_tensor({*sizes, *strides}, *type->scalarType(), *type->device());
}

} // namespace

bool fails_by_sizes(jit::Node &node) {
  const Aside aside;
  const shapes::WithoutData mode;
  std::vector<c10::IValue> inputs, outputs;
  for (const jit::Value *input : node.inputs()) {
    auto given = input_without_data(*input);
    if (!given)
      return false;
    inputs.push_back(std::move(*given));
  }
  return NodeRunner(&node).run(std::move(inputs), outputs) == NodeRunner::Verdict::failed;
}

} // namespace tracehost::trace
