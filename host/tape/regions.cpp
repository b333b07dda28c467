#include "tape/build.h"
#include "tape/ops.h"

#include <ATen/ops/isnan.h>

#include <algorithm>
#include <unordered_set>

/// Steps of a tape that become one region: those of a group of ops, each of which is a kernel.

namespace tracehost::tape {
namespace {

/// The same bits, but for those of a NaN.
bool same_values(const at::Tensor &a, const at::Tensor &b) {
  const auto type = a.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  const at::Tensor x = a.contiguous(), y = b.contiguous();
  return ((x.view(type) == y.view(type)) | (at::isnan(x) & at::isnan(y))).all().item<bool>();
}

} // namespace

/// The op that is built next continues the group, begins one, or is in none.
void Recording::join_group(const jit::Node &node, bool can_be_kernel) {
  can_be_kernel = can_be_kernel && has_kernel(full_name(node.schema()));
  joined_ = can_be_kernel && group_.add(node, found_);
  if (!joined_) {
    close_group();
    joined_ = can_be_kernel && group_.add(node, found_);
  }
  if (joined_ && group_.nodes().size() == 1) {
    first_of_group_ = tape_->steps_.size();
    memories_.begin_group();
  }
}

/// The op has no kernel after all. What it would read of a region's results is in memory.
void Recording::leave_group() {
  if (!joined_)
    return;
  joined_ = false;
  group_ = {};
  memories_.end_group();
}

/// Memory that the group reads keeps its values up to the group's end.
void Recording::close_group() {
  if (group_.nodes().size() > 1)
    make_region();
  group_ = {};
  memories_.end_group();
}

/// Whether an op behind the group, or the caller, reads the result.
bool Recording::leaves_group(const jit::Value &result) const {
  const Memory &root = found_.roots[root_of(result)];
  return root.kind != Memory::Kind::planned || (root.last && !group_.has(root.last));
}

void Recording::make_region() {
  region::RegionPlan plan = group_.plan();
  std::vector<const jit::Value *> outputs;
  for (const jit::Node *node : group_.nodes())
    if (leaves_group(*node->output())) {
      outputs.push_back(node->output());
      plan.outputs.push_back(group_.op_of(*node->output()));
    }
  std::string why;
  auto compiled = region::Region::compile(plan, why);
  if (!compiled)
    return;
  auto step = std::make_unique<Tape::RegionStep>(std::move(compiled), group_.numel());
  for (const jit::Value *input : group_.inputs())
    step->inputs.push_back(memories_.fixed(*input).toTensor().const_data_ptr());
  for (const jit::Value *output : outputs)
    step->outputs.push_back(memories_.fixed(*output).toTensor().mutable_data_ptr());
  step->run(*tape_);
  for (const jit::Value *output : outputs)
    if (!same_values(memories_.fixed(*output).toTensor(), found_.result(*output)))
      return; // the kernels have written the same memory, and run again at each call
  drop_steps_of_group();
  for (std::size_t i = 0; i < group_.inputs().size(); ++i)
    bind_pointer(&step->inputs[i], *group_.inputs()[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    bind_pointer(const_cast<const void **>(&step->outputs[i]), *outputs[i]);
  tape_->steps_.push_back(std::move(step));
  ++tape_->regions_;
}

void Recording::bind_pointer(const void **pointer, const jit::Value &value) {
  const at::Tensor &t = found_.tensor(value);
  const std::size_t root = found_.root_of(t);
  if (found_.roots[root].is_external())
    tape_->roots_[root].pointers.push_back({pointer, bytes_before(t)});
}

void Recording::drop_steps_of_group() {
  const auto first = tape_->steps_.begin() + static_cast<std::ptrdiff_t>(first_of_group_);
  const auto last = first + static_cast<std::ptrdiff_t>(group_.nodes().size());
  std::unordered_set<const at::TensorIteratorBase *> gone;
  for (auto step = first; step != last; ++step)
    if (const auto *kernel = dynamic_cast<const Tape::KernelStep *>(step->get()))
      gone.insert(&kernel->iterator);
  for (Tape::Root &root : tape_->roots_)
    std::erase_if(root.patches,
                  [&](const Tape::Patch &patch) { return gone.contains(patch.iterator); });
  tape_->steps_.erase(first, last);
}

} // namespace tracehost::tape
