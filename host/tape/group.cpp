#include "tape/group.h"

#include "region/functions.h"

#include "tape/kernels.h"
#include "tape/ops.h"

#include <algorithm>

namespace tracehost::tape {

using region::RegionArgument;
using region::RegionInput;
using region::RegionOperand;

bool Group::has(const jit::Node *node) const {
  return std::find(nodes_.begin(), nodes_.end(), node) != nodes_.end();
}

/// All results of a region have one dtype and one size.
bool Group::takes(const at::Tensor &result) const {
  const auto dtype = result.scalar_type();
  if (!has_kernels(dtype) || !result.is_contiguous() || result.numel() == 0)
    return false;
  return nodes_.empty() || (dtype == plan_.dtype && result.sizes() == sizes_);
}

std::optional<RegionInput> Group::kind_of(const at::Tensor &t, const at::Tensor &result) const {
  if (!t.defined() || t.scalar_type() != result.scalar_type() || !t.is_contiguous())
    return std::nullopt;
  if (t.sizes() == result.sizes())
    return RegionInput{RegionInput::Kind::values, 0};
  if (t.numel() == 1)
    return RegionInput{RegionInput::Kind::one, 0};
  at::IntArrayRef inner = t.sizes();
  while (!inner.empty() && inner.front() == 1)
    inner = inner.slice(1);
  if (inner.size() > result.sizes().size() ||
      inner != result.sizes().slice(result.sizes().size() - inner.size()))
    return std::nullopt;
  return RegionInput{RegionInput::Kind::row, t.numel()};
}

/// A view of what the group computes is in no memory before the region ends.
bool Group::can_be_input(const jit::Value &value, const at::Tensor &t) const {
  const jit::Value *made = found_->roots[found_->root_of(found_->tensor(value))].made;
  return t.defined() && (!made || !has(made->node()));
}

/// An argument of an op for the plan; none: a region can't have it.
std::optional<RegionArgument> Group::argument(const jit::Value &value, const at::Tensor &result) {
  const c10::IValue &found = found_->values.at(&value);
  if (found.isNone())
    return RegionArgument(std::monostate());
  if (found.isScalar())
    return RegionArgument(found.toScalar());
  if (found.isString())
    return RegionArgument(std::string_view(found.toStringRef()));
  if (!found.isTensor())
    return std::nullopt;
  if (const auto computed = results_.find(&value); computed != results_.end())
    return RegionArgument(computed->second);
  const at::Tensor &t = found.toTensor();
  const auto known = std::find(inputs_.begin(), inputs_.end(), &value);
  const int index = static_cast<int>(known - inputs_.begin());
  if (known == inputs_.end()) {
    const auto kind = kind_of(t, result);
    if (!kind || !can_be_input(value, t))
      return std::nullopt;
    inputs_.push_back(&value);
    plan_.inputs.push_back(*kind);
  }
  return RegionArgument(RegionOperand::input(index));
}

bool Group::add(const jit::Node &node, const Recorded &found) {
  found_ = &found;
  if (node.outputs().size() != 1 || !node.maybeSchema() || writes(node) ||
      !found_->made(*node.output()))
    return false;
  const at::Tensor &result = found_->tensor(*node.output());
  if (!takes(result) || (node.kind() == c10::aten::gelu && result.numel() > region::kMostOfGelu))
    return false;
  const std::size_t inputs = inputs_.size();
  if (nodes_.empty())
    plan_.dtype = result.scalar_type();
  std::vector<RegionArgument> arguments;
  bool fits = true;
  for (const jit::Value *input : node.inputs()) {
    const auto given = found_->varies(*input) ? std::nullopt : argument(*input, result);
    fits &= given.has_value();
    if (!fits)
      break;
    arguments.push_back(*given);
  }
  const auto operand =
      fits ? region::add_to_region(plan_, full_name(node.schema()), arguments) : std::nullopt;
  if (!operand || operand->from != RegionOperand::From::result) {
    inputs_.resize(inputs);
    plan_.inputs.resize(inputs);
    return false;
  }
  results_[node.output()] = *operand;
  nodes_.push_back(&node);
  sizes_ = result.sizes().vec();
  numel_ = result.numel();
  return true;
}

} // namespace tracehost::tape
