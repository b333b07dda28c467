#include "tape/build.h"
#include "tape/ops.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty.h>

#include <algorithm>

/// The outputs of a tape that is being made: inputs, new tensors, results of ops, numbers. An
/// output that is a view is made of its base at each call, with autograd's view metadata.

namespace tracehost::tape {
namespace {

/// A run copies what it saves, and a tape takes some 400 ns off an op: time for so many bytes.
constexpr std::size_t kMostSavedAnOp = 4 << 10;
/// Of a list of views each output runs the op that makes the list.
constexpr std::size_t kMostOfOneList = 4;

/// The tensor whose memory an op made, where its result is a view of it: at::linear() of torch 2.11
/// gives rows in other sizes. Else the result.
at::Tensor made_by_op(const at::Tensor &result) {
  return result.is_view() ? at::Tensor(result._base()) : result;
}

/// Makes a view with the layout of `then`.
jit::Operation with_layout_of(const at::Tensor &then) {
  return [sizes = then.sizes().vec(), strides = then.strides().vec(),
          offset = then.storage_offset()](jit::Stack &stack) {
    stack.back() = at::as_strided(stack.back().toTensor(), sizes, strides, offset);
  };
}

} // namespace

void Recording::add_outputs() {
  std::unordered_map<const c10::TensorImpl *, std::size_t> known;
  for (const jit::Value *output : graph_.outputs()) {
    const c10::IValue &value = found_.values.at(output);
    const auto index = tape_->outputs_.size();
    if (value.isTensor()) {
      const auto [first, is_new] = known.emplace(value.toTensor().unsafeGetTensorImpl(), index);
      tape_->outputs_.push_back(is_new ? output_of(*output)
                                       : Tape::Output{From::earlier, first->second, {}, {}});
    } else if (found_.varies(*output)) {
      tape_->outputs_.push_back({From::slot, slot_of_.at(output), {}, {}});
    } else {
      tape_->outputs_.push_back({From::constant, 0, value, {}});
    }
  }
  note_last_uses();
  note_writes();
}

/// The last output that has a new tensor takes it from the run.
void Recording::note_last_uses() {
  std::vector<bool> taken(tape_->fresh_.size());
  for (auto output = tape_->outputs_.rbegin(); output != tape_->outputs_.rend(); ++output)
    if (output->from == From::fresh) {
      output->takes_made = output->views.empty() && !taken[output->index];
      taken[output->index] = true;
    }
}

/// A tensor that an op made, an input or a constant, with the views between it and the output.
Tape::Output Recording::output_of(const jit::Value &output) {
  std::vector<Tape::View> views;
  const jit::Value *value = &output;
  while (!is_base(*value)) {
    if (value->node()->kind() == c10::aten::detach) {
      std::reverse(views.begin(), views.end());
      return {From::detached, add_detached(*value), {}, std::move(views)};
    }
    value = base_of(*value, views);
  }
  const bool from_op = value->node() != graph_.param_node() && found_.made(*value);
  const at::Tensor &then = found_.tensor(*value);
  const bool from_view = from_op && then.is_view();
  if (from_view && made_by_op(then).scalar_type() != then.scalar_type())
    give_up("an output that is a view in another dtype");
  if (from_view)
    add_view({with_layout_of(then), {c10::IValue()}, 0}, views);
  std::reverse(views.begin(), views.end());
  if (value->node() == graph_.param_node())
    return {From::input, value->offset(), {}, std::move(views)};
  const std::size_t root = root_of(*value);
  switch (found_.roots[root].kind) {
  case Memory::Kind::constant:
    return {From::constant, 0, found_.values.at(value), std::move(views)};
  case Memory::Kind::called:
    if (then.is_view())
      tape_->bases_.insert_or_assign(root, with_layout_of(made_by_op(then)));
    return {From::called, root, {}, std::move(views)};
  default:
    return {From::fresh, add_fresh(*value), {}, std::move(views)};
  }
}

/// detach() gives a tensor that autograd takes for no view, and so for the base of views of it. A
/// run makes it once, for all outputs that are this tensor or views of it.
std::size_t Recording::add_detached(const jit::Value &value) {
  if (const auto known = detached_.find(&value); known != detached_.end())
    return known->second;
  std::vector<Tape::View> views;
  Tape::Output detached = output_of(*base_of(value, views));
  std::move(views.begin(), views.end(), std::back_inserter(detached.views));
  tape_->detaches_.push_back(std::move(detached));
  tape_->detached_.emplace_back();
  return detached_[&value] = tape_->detaches_.size() - 1;
}

void Recording::add_view(Tape::View view, std::vector<Tape::View> &views) {
  if (switches_grad(graph_))
    give_up("an output that is a view, in a graph that switches grad mode");
  views.push_back(std::move(view));
}

bool Recording::is_base(const jit::Value &value) const {
  return value.node() == graph_.param_node() || value.node()->kind() == c10::prim::Constant ||
         found_.made(value);
}

/// What a value is a view of, one op back.
const jit::Value *Recording::base_of(const jit::Value &value, std::vector<Tape::View> &views) {
  const jit::Node *node = value.node();
  for (const jit::Value *input : node->inputs())
    if (const c10::IValue &argument = found_.values.at(input);
        argument.isTensor() && argument.toTensor().is_same(found_.tensor(value)))
      return input;
  std::size_t element = 0;
  if (node->kind() == c10::prim::ListUnpack) {
    if (++of_lists_[node] > kMostOfOneList)
      give_up("outputs that are over four views of one list");
    element = value.offset();
    node = node->input()->node();
  }
  const std::string name = node->kind().toQualString();
  if ((!name.starts_with("aten::") && name != "tracehost::view_of_base") || writes(*node) ||
      node->outputs().size() != 1 ||
      name.find("unsafe") != std::string::npos) // counts its own writes
    give_up("an output that is a view by " + name);
  Tape::View view{node->getOperation(), {}, element};
  for (const jit::Value *input : node->inputs()) {
    const c10::IValue &argument = found_.values.at(input);
    bool tensors = false;
    each_tensor(argument, [&tensors](const at::Tensor &) { tensors = true; });
    if (tensors != view.arguments.empty())
      give_up("an output that is a view by " + name);
    view.arguments.push_back(tensors ? c10::IValue() : argument);
  }
  add_view(std::move(view), views);
  return node->input(0);
}

std::size_t Recording::add_fresh(const jit::Value &value) {
  const at::Tensor t = made_by_op(found_.tensor(value));
  const std::size_t root = found_.root_of(t);
  for (std::size_t i = 0; i < tape_->fresh_.size(); ++i)
    if (tape_->fresh_[i].root == root)
      return i;
  tape_->fresh_.push_back({root, t.sizes().vec(), t.strides().vec(), t.scalar_type(),
                           found_.versions[root],
                           at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.itemsize()),
                           t.strides() == c10::contiguous_strides(t.sizes())});
  tape_->made_.emplace_back();
  return tape_->fresh_.size() - 1;
}

/// Room for what an input has before the run, if the run may end early behind a write to it.
at::Tensor Recording::room_for(std::size_t root) {
  if (last_to_end_ < first_write_.at(root))
    return {};
  const Memory &memory = found_.roots[root];
  if (!found_.before.at(root).is_non_overlapping_and_dense())
    give_up("it writes to a tensor with gaps");
  saved_ += memory.bytes;
  if (saved_ > kMostSavedAnOp * tape_->ops_)
    give_up("it would copy much of what it writes to, for an op that may fail behind");
  tape_->saves_ = true;
  return at::empty({static_cast<std::int64_t>(memory.bytes)}, at::kByte);
}

std::ptrdiff_t Recording::first_write_of_input(std::size_t input) const {
  return first_write_.at(found_.root_of(found_.values.at(graph_.inputs()[input]).toTensor()));
}

void Recording::note_writes() {
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const c10::IValue &value = found_.values.at(graph_.inputs()[i]);
    if (!value.isTensor())
      continue;
    const std::size_t root = found_.root_of(value.toTensor());
    if (!found_.roots[root].written)
      continue;
    written.push_back(i);
    tape_->written_.push_back({i, found_.versions[root], room_for(root)});
  }
  tape_->bytes_ += saved_;
  tape_->saves_generator_ = last_to_end_ >= first_draw_;
  for (const Tape::Written &one : tape_->written_)
    if (!one.saved.defined())
      tape_->first_effect_ = std::min(tape_->first_effect_, first_write_of_input(one.input));
  if (!tape_->saves_generator_)
    tape_->first_effect_ = std::min(tape_->first_effect_, first_draw_);
  tape_->saves_ |= tape_->saves_generator_;
  if (!written.empty())
    tape_->guards().set_written(written);
  for (const auto &[root, version] : found_.versions)
    if (found_.roots[root].kind == Memory::Kind::called &&
        (version > 0 || found_.written_by_blocks.contains(root)) &&
        !found_.roots[root].of_block) // a block counts its own writes
      tape_->versions_.emplace_back(root, version);
}

} // namespace tracehost::tape
