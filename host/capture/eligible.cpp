#include "capture/eligible.h"

#include "capture/writes.h"
#include "shapes/kernels.h"
#include "tape/ops.h"
#include "tape/training.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

/// A walk over the graph that follows where each tensor lies. A tensor on the CPU is fixed in a
/// capture: it may be a constant, or follow from constants and sizes.

namespace tracehost::capture {

namespace jit = torch::jit;

namespace {

/// Their tag says that sizes depend on values, but they need no value unless a mask is an index.
constexpr std::array<std::string_view, 2> kByIndex{"aten::index", "aten::index_put"};

bool has_tensor_type(const jit::Value &value) {
  return value.type()->isSubtypeOf(*c10::TensorType::get()) ||
         value.type()->isSubtypeOf(*c10::ListType::ofTensors());
}

bool is_mask(const jit::Value &value) {
  const auto type = value.type()->cast<c10::TensorType>();
  if (!type || !type->scalarType())
    return false;
  const c10::ScalarType dtype = *type->scalarType();
  return dtype == at::kBool || dtype == at::kByte;
}

bool has_mask(const jit::Node &node) {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [](const jit::Value *input) {
    const jit::Node &list = *input->node();
    return list.kind() == c10::prim::ListConstruct &&
           std::any_of(list.inputs().begin(), list.inputs().end(),
                       [](const jit::Value *index) { return is_mask(*index); });
  });
}

/// Whether the host reads values of tensors: numbers come of them, or sizes.
bool waits(const jit::Node &node) {
  if (!node.blocks().empty() || !node.maybeSchema())
    return false;
  const c10::FunctionSchema &schema = node.schema();
  if (std::find(kByIndex.begin(), kByIndex.end(), schema.name()) != kByIndex.end())
    return has_mask(node);
  if (!tape::gives_tensors(node) && !tape::is_fixed(node) && node.kind().is_aten())
    return true;
  const auto op = shapes::op_of(schema);
  return op &&
         (op->hasTag(at::Tag::data_dependent_output) || op->hasTag(at::Tag::dynamic_output_shape));
}

class Walk {
public:
  explicit Walk(c10::Device device) : device_(device) {}

  std::optional<Reason> input(const jit::Graph &graph, std::size_t index,
                              const c10::IValue &given) {
    if (given.isNone())
      return std::nullopt;
    if (!given.isTensor())
      return Reason{c10::str("input ", index, " is a number of the call")};
    const at::Tensor &t = given.toTensor();
    if (t.device() != device_)
      return Reason{
          c10::str("input ", index, " lies on ", t.device(), ", not on ", device_,
                   written_inputs(graph)[index] ? "; an optimizer needs capturable=True" : "")};
    on_device_[graph.inputs()[index]] = true;
    return std::nullopt;
  }

  std::optional<Reason> block(const jit::Block &block) {
    for (const jit::Node *node : block.nodes()) {
      if (auto reason = this->node(*node))
        return reason;
      for (const jit::Block *inner : node->blocks())
        if (auto reason = this->block(*inner))
          return reason;
    }
    return std::nullopt;
  }

private:
  std::optional<Reason> node(const jit::Node &node) {
    if (node.kind() == c10::prim::Constant)
      return constant(node);
    const std::string name = node.kind().toQualString();
    if (tape::is_autograd_op(node)) // training.h
      return enter(node);
    if (node.kind() == c10::prim::ListConstruct || node.kind() == c10::prim::ListUnpack)
      return place(node, name);
    if (!node.blocks().empty())
      return enter(node);
    if (waits(node))
      return Reason{name + " waits for the device", &node};
    if (const std::string why = tape::why_not(node); !why.empty())
      return Reason{why == name ? name + " does more than compute" : why, &node};
    return place(node, name);
  }

  /// Results of a loop, an `if` or a backward may lie on the device. Blocks are walked next.
  std::optional<Reason> enter(const jit::Node &node) {
    for (const jit::Block *block : node.blocks())
      for (const jit::Value *value : block->inputs())
        on_device_[value] = has_tensor_type(*value);
    for (const jit::Value *value : node.outputs())
      on_device_[value] = has_tensor_type(*value);
    return std::nullopt;
  }

  std::optional<Reason> constant(const jit::Node &node) {
    const auto value = jit::toIValue(node.output());
    if (!value || !value->isTensor() || !value->toTensor().defined())
      return std::nullopt;
    const c10::Device where = value->toTensor().device();
    if (where != device_ && !where.is_cpu())
      return Reason{c10::str("a constant lies on ", where, ", not on ", device_), &node};
    on_device_[node.output()] = where == device_;
    return std::nullopt;
  }

  /// Where the op's results lie.
  std::optional<Reason> place(const jit::Node &node, const std::string &name) {
    bool any_tensor = false, any_on_device = false;
    for (const jit::Value *input : node.inputs()) {
      any_tensor |= has_tensor_type(*input);
      any_on_device |= lies_on_device(*input);
    }
    const auto asked = device_argument(node);
    if (asked && !asked->is_cpu() && *asked != device_)
      return Reason{c10::str(name, " uses ", *asked, " besides ", device_), &node};
    const bool result = asked ? *asked == device_ : any_on_device;
    if (any_tensor && asked && result != any_on_device && has_results(node))
      return Reason{name + " copies between the host and the device", &node};
    for (const std::size_t i : tape::written_arguments(node))
      if (has_tensor_type(*node.input(i)) && !lies_on_device(*node.input(i)) && !device_.is_cpu())
        return Reason{name + " writes to a tensor of the CPU", &node};
    if (name == "aten::copy_" && !lies_on_device(*node.input(1)) && is_big(*node.input(1)))
      return Reason{name + " copies between the host and the device", &node};
    if (!result && !device_.is_cpu() && tape::draws(node))
      return Reason{name + " draws on the CPU", &node};
    for (const jit::Value *output : node.outputs())
      on_device_[output] = result;
    return std::nullopt;
  }

  static bool has_results(const jit::Node &node) {
    return std::any_of(node.outputs().begin(), node.outputs().end(),
                       [](const jit::Value *output) { return has_tensor_type(*output); });
  }

  /// A tensor of the CPU that is no number to a kernel.
  bool is_big(const jit::Value &value) const {
    const auto constant = jit::toIValue(&value);
    return !device_.is_cpu() &&
           !(constant && constant->isTensor() && constant->toTensor().dim() == 0);
  }

  bool lies_on_device(const jit::Value &value) const {
    const auto found = on_device_.find(&value);
    return found != on_device_.end() && found->second;
  }

  /// Without an index it is the current device, which calls that are captured have in common.
  std::optional<c10::Device> device_argument(const jit::Node &node) const {
    for (const jit::Value *input : node.inputs())
      if (const auto value = jit::toIValue(input); value && value->isDevice()) {
        const c10::Device asked = value->toDevice();
        return asked.type() == device_.type() && !asked.has_index() ? device_ : asked;
      }
    return std::nullopt;
  }

  const c10::Device device_;
  std::unordered_map<const jit::Value *, bool> on_device_;
};

} // namespace

std::optional<Reason> not_capturable(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                     c10::Device device) {
  Walk walk(device);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (auto reason = walk.input(graph, i, inputs[i]))
      return reason;
  return walk.block(*graph.block());
}

std::size_t count_launches(const jit::Block &block) {
  std::size_t sum = 0;
  for (const jit::Node *node : block.nodes()) {
    for (const jit::Block *inner : node->blocks())
      sum += count_launches(*inner);
    const auto *schema = node->maybeSchema();
    if (!schema || !node->blocks().empty() || tape::is_fixed(*node) || !tape::gives_tensors(*node))
      continue;
    const bool is_view = !schema->returns().empty() && schema->returns().front().alias_info() &&
                         !schema->returns().front().alias_info()->isWrite();
    sum += is_view ? 0 : 1;
  }
  return sum;
}

bool any_draws(const jit::Block &block) {
  const auto nodes = block.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    return node->blocks().empty()
               ? tape::draws(*node)
               : std::any_of(node->blocks().begin(), node->blocks().end(),
                             [](const jit::Block *inner) { return any_draws(*inner); });
  });
}

} // namespace tracehost::capture
