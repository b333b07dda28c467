#include "tape/memories.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

namespace tracehost::tape {
namespace {

using Kind = Memory::Kind;

} // namespace

Memories::Memories(const jit::Graph &graph, Recorded &found)
    : graph_(graph), found_(found), storages_(found.roots.size()), placed_at_(found.roots.size()) {
  for (std::size_t i = 0; i < found.roots.size(); ++i) {
    const Memory &root = found.roots[i];
    last_uses_[root.last || !root.made ? root.last : root.made->node()].push_back(i);
  }
  for (const jit::Value *output : graph.outputs())
    if (const c10::IValue &value = found.values.at(output); value.isTensor())
      of_outputs_.insert(found.root_of(value.toTensor()));
}

at::Tensor Memories::memory_for(Memory &root) {
  if (const auto free = pool_.find(root.bytes); root.kind == Kind::planned && free != pool_.end()) {
    at::Tensor memory = free->second;
    pool_.erase(free);
    return memory;
  }
  const auto bytes = static_cast<std::int64_t>(std::max<std::size_t>(root.bytes, 1));
  at::Tensor memory = at::empty({bytes}, at::kByte);
  if (root.kind == Kind::planned) {
    bytes_ += root.bytes;
    planned_.push_back(memory);
  } else {
    of_recording_.push_back(memory);
  }
  return memory;
}

const c10::Storage &Memories::place(std::size_t index) {
  Memory &root = found_.roots[index];
  c10::Storage &storage = storages_[index];
  if (storage || root.kind == Kind::constant)
    return storage;
  placed_at_[index] = ++placed_;
  if (root.kind == Kind::input && !found_.before.contains(index))
    return storage = found_.input(index, graph_).storage(); // nobody writes to it
  root.planned = memory_for(root);
  storage = borrowed(root.planned.data_ptr(), root.bytes);
  if (root.kind == Kind::input && root.bytes > 0)
    std::memcpy(root.planned.data_ptr(), found_.before.at(index).storage().data(), root.bytes);
  return storage;
}

const c10::Storage &Memories::place_again(std::size_t index) {
  found_.roots[index].kind = Kind::called;
  storages_[index] = {};
  return place(index);
}

c10::IValue Memories::fixed_of(const c10::IValue &value) const {
  if (!value.isTensor())
    return value;
  const at::Tensor &t = value.toTensor();
  if (!t.defined() || found_.roots[found_.root_of(t)].kind == Kind::constant)
    return value;
  return over(storages_[found_.root_of(t)], t, t.storage_offset());
}

void Memories::fix(const jit::Value &value) {
  const c10::IValue &recorded = found_.values.at(&value);
  c10::IValue &fixed = fixed_[&value];
  if (recorded.isTensorList()) {
    c10::List<at::Tensor> tensors;
    for (const at::Tensor &t : recorded.toTensorVector())
      tensors.push_back(fixed_of(t).toTensor());
    fixed = tensors;
  } else if (recorded.isList() &&
             recorded.type()->isSubtypeOf(*c10::ListType::create(c10::OptionalType::ofTensor()))) {
    c10::List<std::optional<at::Tensor>> tensors;
    for (const c10::IValue &item : recorded.toListRef())
      tensors.push_back(item.isNone() ? std::nullopt : std::optional(fixed_of(item).toTensor()));
    fixed = tensors;
  } else {
    fixed = fixed_of(recorded);
  }
}

void Memories::release(const jit::Node &node) {
  const auto roots = last_uses_.find(&node);
  if (roots == last_uses_.end())
    return;
  for (const std::size_t index : roots->second)
    if (group_since_ != 0 && placed_at_[index] < group_since_)
      kept_for_group_.push_back(index);
    else
      give_back(index);
}

void Memories::give_back(std::size_t index) {
  Memory &root = found_.roots[index];
  if (root.kind == Kind::called && !of_outputs_.contains(index))
    spent_.push_back(index);
  if (root.kind != Kind::planned || !root.planned.defined())
    return;
  pool_.emplace(root.bytes, root.planned);
  root.planned.reset();
}

void Memories::end_group() {
  group_since_ = 0;
  for (const std::size_t index : kept_for_group_)
    give_back(index);
  kept_for_group_.clear();
}

} // namespace tracehost::tape
