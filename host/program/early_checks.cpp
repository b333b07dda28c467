#include "program/early_checks.h"

#include "program/checks.h"
#include "program/numbers.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <exception>
#include <string_view>
#include <unordered_map>

namespace tracehost {

namespace jit = torch::jit;

namespace {

/// The number in a 0-dim tensor, without the dispatcher where its memory can be read.
c10::IValue number_in(const at::Tensor &t) {
  if (t.device().is_cpu() && t.dim() == 0 && t.layout() == at::kStrided) {
    if (t.scalar_type() == at::kLong)
      return *t.const_data_ptr<std::int64_t>();
    if (t.scalar_type() == at::kDouble)
      return *t.const_data_ptr<double>();
    if (t.scalar_type() == at::kBool)
      return *t.const_data_ptr<bool>();
  }
  return t.item();
}

} // namespace

EarlyChecks::EarlyChecks(const jit::Graph &graph) {
  std::unordered_map<const jit::Value *, std::uint32_t> places;
  const auto inputs = graph.inputs();
  const auto place = [&](const jit::Value *value, c10::IValue held) {
    places.emplace(value, static_cast<std::uint32_t>(values_.size()));
    values_.push_back(std::move(held));
    return places.at(value);
  };
  std::size_t checked = 0;
  for (const jit::Node *node : graph.block()->nodes()) {
    const std::string_view name = node->kind().toQualString();
    if (node->kind() == c10::prim::Constant) {
      if (auto constant = jit::toIValue(node->output()))
        place(node->output(), std::move(*constant));
      continue;
    }
    Step step;
    if (node->kind() == c10::aten::item) {
      const auto input = std::find(inputs.begin(), inputs.end(), node->input());
      if (input == inputs.end())
        break;
      step.what = Step::read;
      step.operands.push_back(static_cast<std::uint32_t>(input - inputs.begin()));
    } else {
      step.what = is_check(name) ? Step::check : Step::compute;
      step.of_kind = name == "tracehost::check_kind";
      const bool known =
          step.what == Step::check || name == "tracehost::number" || is_number_op(name);
      if (!known || !std::all_of(node->inputs().begin(), node->inputs().end(),
                                 [&](const jit::Value *v) { return places.contains(v); }))
        break;
      for (const jit::Value *operand : node->inputs())
        step.operands.push_back(places.at(operand));
      if (step.what == Step::compute)
        step.op = node->getOperation();
    }
    if (node->outputs().size() == 1)
      step.result = place(node->output(), {});
    steps_.push_back(std::move(step));
    if (steps_.back().what == Step::check)
      checked = steps_.size(), ++count_;
  }
  steps_.resize(checked);
}

bool EarlyChecks::run(c10::ArrayRef<c10::IValue> inputs) const {
  c10::SmallVector<c10::IValue, 32> values(values_.begin(), values_.end());
  jit::Stack stack;
  try {
    for (const Step &step : steps_)
      switch (step.what) {
      case Step::read:
        values[step.result] = number_in(inputs[step.operands[0]].toTensor());
        break;
      case Step::compute:
        stack.clear();
        for (const std::uint32_t operand : step.operands)
          stack.push_back(values[operand]);
        step.op(stack);
        values[step.result] = std::move(stack.back());
        break;
      case Step::check:
        if (const auto holds = step.of_kind ? is_of_kind : is_number;
            !holds(values[step.operands[0]], values[step.operands[1]]))
          return false;
        break;
      }
  } catch (const std::exception &) { // as the graph raises in its turn
  }
  return true;
}

} // namespace tracehost
