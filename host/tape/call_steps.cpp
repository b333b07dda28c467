#include "tape/build.h"

#include "tape/blocks.h"
#include "tape/ops.h"

#include <algorithm>

/// Steps of a tape that is being made: ops that are called, and the memory of their results.

namespace tracehost::tape {

/// An op reads the fixed tensors of its arguments, whose memory has to be theirs at each call.
void Recording::note_reads(const jit::Node &node) {
  for (const jit::Value *input : node.inputs())
    each_tensor(found_.values.at(input), [&](const at::Tensor &t) {
      if (t.defined() && found_.roots[found_.root_of(t)].is_external())
        tape_->roots_[found_.root_of(t)].has_tensors = true;
    });
}

/// Arguments of an op: constants and fixed tensors in their places, the places of slots apart.
void Recording::add_arguments(const jit::Node &node, std::vector<c10::IValue> &arguments,
                              std::vector<SlotArgument> &slots) {
  for (const jit::Value *input : node.inputs()) {
    const auto slot = slot_of_.find(input);
    if (slot != slot_of_.end())
      slots.push_back({arguments.size(), slot->second});
    arguments.push_back(slot == slot_of_.end() ? memories_.fixed(*input) : c10::IValue());
  }
  note_reads(node);
}

void Recording::build_list(const jit::Node &node) {
  auto step = std::make_unique<Tape::ListStep>();
  step->node = &node;
  add_arguments(node, step->items, step->slots);
  step->result = add_slot(*node.output());
  step->run(*tape_);
  tape_->steps_.push_back(std::move(step));
}

void Recording::build_call(const jit::Node &node) {
  auto step = std::make_unique<Tape::CallStep>(operation_of(node));
  step->is_outlined = is_outlined(node);
  step->ends_if_copied = found_.given_written.contains(&node);
  step->spent = memories_.take_spent();
  add_arguments(node, step->arguments, step->slots);
  if (step->is_outlined)
    for (const std::size_t i : written_arguments(node))
      step->counted.push_back({step->arguments[i].toTensor(), root_of(*node.input(i))});
  for (const jit::Value *output : node.outputs())
    step->results.push_back(add_result(node, *output));
  step->run(*tape_);
  for (std::size_t i = 0; i < step->results.size(); ++i)
    step->results[i].exposed = step->is_outlined && is_exposed(*node.outputs()[i]);
  for (const jit::Value *output : node.outputs()) {
    std::vector<at::Tensor> results;
    if (const auto list = found_.lists.find(output); list != found_.lists.end())
      results = list->second;
    else if (found_.made(*output))
      results = {found_.result(*output)};
    std::vector<std::size_t> roots;
    each_tensor(found_.values.at(output),
                [&](const at::Tensor &t) { roots.push_back(t.defined() ? found_.root_of(t) : 0); });
    for (std::size_t i = 0; i < results.size(); ++i)
      if (!is_uninitialized(node) && !gives_workspace(node) &&
          !same_bits(tape_->called_[roots[i]], results[i]))
        give_up(std::string(node.kind().toQualString()) + " gives other bits each time");
  }
  if (!step->slots.empty() || may_fail(node, has_integers(node)))
    last_to_end_ = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  tape_->steps_.push_back(std::move(step));
}

bool Recording::has_integers(const jit::Node &node) const {
  return std::any_of(node.inputs().begin(), node.inputs().end(), [this](const jit::Value *input) {
    return !integers_of(found_.values.at(input), false).empty();
  });
}

Tape::CallStep::Result Recording::add_result(const jit::Node &node, const jit::Value &output) {
  using To = Tape::CallStep::Result::To;
  if (found_.varies(output))
    return {To::slot, add_slot(output)};
  const c10::IValue &value = found_.values.at(&output);
  if (found_.lists.contains(&output))
    return add_list(output);
  if (!found_.made(output)) {
    if (value.isTensor() && !value.toTensor().defined()) {
      memories_.fix(output);
      return {};
    }
    if (!writes(node) || is_outlined(node)) // what it writes to is its result
      give_up(std::string(node.kind().toQualString()) + " gives a view among its results");
    memories_.fix(output);
    return {};
  }
  place_result(value.toTensor());
  memories_.fix(output);
  const std::size_t root = found_.root_of(value.toTensor());
  Tape::CallStep::Result result{To::root, root, memories_.fixed(output).toTensor()};
  result.moves = found_.roots[root].moves_in.has_value();
  return result;
}

/// Whether the caller gets the memory of a result.
bool Recording::is_exposed(const jit::Value &value) const {
  bool exposed = false;
  for (const jit::Value *output : graph_.outputs())
    each_tensor(found_.values.at(output), [&](const at::Tensor &t) {
      each_tensor(found_.values.at(&value), [&](const at::Tensor &made) {
        exposed |= t.defined() && made.defined() && found_.root_of(t) == found_.root_of(made);
      });
    });
  return exposed;
}

/// Memory that an op gives.
void Recording::place_result(const at::Tensor &t) {
  const std::size_t root = found_.root_of(t);
  tape_->roots_[root].storage = memories_.place_again(root);
  tape_->roots_[root].has_tensors = true;
}

Tape::CallStep::Result Recording::add_list(const jit::Value &output) {
  using To = Tape::CallStep::Result::To;
  for (const at::Tensor &t : found_.values.at(&output).toTensorVector())
    place_result(t);
  memories_.fix(output);
  Tape::CallStep::Result result{To::list};
  const auto fixed = memories_.fixed(output).toTensorVector();
  const auto recorded = found_.values.at(&output).toTensorVector();
  for (std::size_t i = 0; i < fixed.size(); ++i)
    result.elements.push_back({To::root, found_.root_of(recorded[i]), fixed[i]});
  return result;
}

} // namespace tracehost::tape
