#include "tape/build.h"

#include "tape/ops.h"

#include <ATen/EmptyTensor.h>

#include <fmt/format.h>

#include <algorithm>

/// The second pass: which steps the ops become.

namespace tracehost::tape {
namespace {

/// Above, a call is bound by its memory and not by what a tape saves.
constexpr std::size_t kMostBytes = 8 << 20;

} // namespace

Recording::Recording(const jit::Graph &graph, Recorded found, std::unique_ptr<Tape> tape)
    : graph_(graph), found_(std::move(found)), tape_(std::move(tape)), memories_(graph, found_) {
  tape_->roots_.resize(found_.roots.size());
  tape_->called_.resize(found_.roots.size());
  if (!found_.written_by_blocks.empty())
    tape_->by_blocks_.resize(found_.roots.size());
}

std::unique_ptr<Tape> Recording::make(c10::ArrayRef<c10::IValue> given) {
  for (std::size_t i = 0; i < given.size(); ++i)
    add_input(*graph_.inputs()[i], given[i]);
  for (const jit::Node *node : graph_.nodes()) {
    build(*node);
    memories_.release(*node);
  }
  close_group();
  tape_->bytes_ = memories_.bytes();
  if (tape_->bytes_ > kMostBytes)
    give_up(fmt::format("{} MB of results in between", tape_->bytes_ >> 20));
  add_outputs();
  for (at::Tensor &memory : memories_.take_planned())
    tape_->kept_.push_back(std::move(memory));
  tape_->note_kinds(switches_grad(graph_));
  return std::move(tape_);
}

void Recording::add_input(const jit::Value &input, const c10::IValue &given) {
  using To = Tape::Given::To;
  if (given.isTensor()) {
    const std::size_t root = root_of(input);
    place(root);
    tape_->inputs_.push_back({To::root, root});
    memories_.fix(input);
  } else if (found_.varies(input)) {
    tape_->inputs_.push_back({To::slot, add_slot(input)});
    tape_->slots_.back() = given;
  } else {
    tape_->inputs_.push_back({To::nothing, 0});
    memories_.fix(input);
  }
}

std::size_t Recording::add_slot(const jit::Value &value) {
  slot_of_[&value] = tape_->slots_.size();
  tape_->slots_.emplace_back();
  return tape_->slots_.size() - 1;
}

void Recording::place(std::size_t root) { tape_->roots_[root].storage = memories_.place(root); }

void Recording::build(const jit::Node &node) {
  const auto any = [](const auto &values, const auto &test) {
    return std::any_of(values.begin(), values.end(),
                       [&](const jit::Value *value) { return test(*value); });
  };
  const auto varies = [this](const jit::Value &v) { return found_.varies(v); };
  const bool computes = any(node.outputs(), [this](const jit::Value &v) {
    return found_.made(v) || found_.lists.contains(&v);
  });
  const bool is_list = node.kind() == c10::prim::ListConstruct;
  const bool is_step =
      any(node.outputs(), varies) ||
      (!is_list && node.kind() != c10::prim::Constant && node.kind() != c10::prim::ListUnpack &&
       !does_nothing(node) && (computes || writes(node) || node.outputs().empty()));
  if (!is_step)
    return fix_all(node);
  ++tape_->ops_;
  const bool is_new = computes && node.maybeSchema() && !writes(node) && has_plain_result(node);
  const bool fixed = !any(node.inputs(), varies);
  join_group(node, is_new && fixed);
  note_effects(node);
  if ((is_new || writes_in_place(node)) && build_kernel(node))
    return;
  if (is_new && fixed && build_out_kernel(node))
    return;
  leave_group();
  if (is_list)
    build_list(node);
  else
    build_call(node);
}

void Recording::fix_all(const jit::Node &node) {
  for (const jit::Value *output : node.outputs())
    memories_.fix(*output);
}

/// The steps at which the graph first writes to an input, and draws.
void Recording::note_effects(const jit::Node &node) {
  const auto next = static_cast<std::ptrdiff_t>(tape_->steps_.size());
  for (const std::size_t i : written_arguments(node))
    each_tensor(found_.values.at(node.input(i)), [&](const at::Tensor &t) {
      if (t.defined() && found_.roots[found_.root_of(t)].written)
        first_write_.emplace(found_.root_of(t), next);
    });
  if (draws(node))
    first_draw_ = std::min(first_draw_, next);
}

/// One result that fills its memory, which the tape could have made.
bool Recording::has_plain_result(const jit::Node &node) const {
  if (node.outputs().size() != 1 || !found_.values.at(node.output()).isTensor())
    return false;
  const at::Tensor &t = found_.tensor(*node.output());
  return t.storage_offset() == 0 &&
         at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()) ==
             t.storage().nbytes();
}

} // namespace tracehost::tape
