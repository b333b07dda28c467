#include "trace/blocks.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/numbers.h"
#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

/// A sparse tensor that an op has given without data: it has no elements, and needs no twin.
bool Blocks::made_without_data(const at::Tensor &t) const {
  if (!shapes::is_sparse(t))
    return false;
  const auto &state = tracer::getTracingState();
  if (!on_fake_tensors_)
    return state->hasValue(t) && state->getValue(t)->node()->kind() != c10::prim::Param;
  return std::any_of(without_data_.begin(), without_data_.end(), [&](const auto &made) {
    return made.first._unsafe_get_target() == t.unsafeGetTensorImpl();
  });
}

at::Tensor Blocks::fake_tensor(const at::Tensor &t) {
  if (!trace_.without_data() || made_without_data(t))
    return t;
  at::Tensor twin;
  {
    const Paused paused;
    twin = twins_.of(t);
  }
  const auto &state = tracer::getTracingState();
  if (!twin.is_same(t))
    meet(t);
  if (!state->hasValue(twin)) // it is another tensor
    state->setValue(twin, state->getValue(t));
  return twin;
}

bool Blocks::is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!trace_.without_data() || !trace_.dynamic_sizes)
    return false;
  substituted_.clear();
  bool any = false, all = true;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    // The index of a loop counts as a size, and has no value.
    const bool is_size = trace_.dynamic_sizes->is_size(t) && !shapes::is_fake_tensor(t);
    any |= is_size;
    all &= is_size || t.unsafeGetTensorImpl()->is_wrapped_number();
  });
  return any && all;
}

void Blocks::substitute(const c10::OperatorHandle &op, jit::Stack &stack) {
  if (traits(op).takes_number && op.schema().name() == "aten::index_put_")
    trace_.number_arguments.cast_number(stack);
  if (!trace_.without_data())
    return;
  substituted_.clear();
  const bool literal = traits(op).literal;
  const auto with_data = [&](const at::Tensor &t) {
    const auto *impl = t.unsafeGetTensorImpl();
    if (is_traced_number(t) && !shapes::is_fake_tensor(t))
      meet(t);
    if (impl->is_wrapped_number() || (literal && impl->pyobj_slot()->load_pyobj() == nullptr))
      return t;
    at::Tensor twin = fake_tensor(t);
    if (!twin.is_same(t))
      substituted_.emplace_back(t, twin);
    return twin;
  };
  for (std::size_t i = stack.size() - op.schema().arguments().size(); i < stack.size(); ++i)
    stack[i] = shapes::replaced(stack[i], with_data);
}

void Blocks::note_written(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const jit::Block *block = tracer::getTracingState()->graph->insertPoint()->owningBlock();
  each_written(op, stack, [&](const at::Tensor &t) {
    const auto found = made_.find(t.unsafeGetTensorImpl());
    const jit::Value *value = found == made_.end() ? nullptr : found->second.second;
    const bool made = value && value->node()->kind() != c10::prim::Param; // else a loop carries it
    reshapes.before_write(block, made ? value->node()->owningBlock() : nullptr, t);
  });
}

/// The body still sees the tensor itself, which an op does not change in such a trace.
void Blocks::check_substituted(const c10::OperatorHandle &op) {
  const auto differ = [](const at::Tensor &t, const at::Tensor &twin) {
    return t.requires_grad() != twin.requires_grad() ||
           (t.layout() == at::kStrided &&
            (t.sizes() != twin.sizes() || t.strides() != twin.strides()));
  };
  bool changes = depth && trace_.without_data() && traits(op).writes &&
                 reshapes.any(tracer::getTracingState()->graph->insertPoint()->owningBlock());
  for (const auto &[t, twin] : substituted_)
    changes |= differ(t, twin);
  if (!changes)
    return;
  const std::string what =
      fmt::format("{} at {} changes the shape or requires_grad of a tensor in place",
                  op.schema().name(), text(trace_.frontend.here()));
  if (depth)
    reject(Rejection::staging, what + ", in a branch or loop that is staged. Use an op that "
                                      "returns a new tensor.");
  reject(Rejection::trace, what + ", which can't be followed in a trace without example data. Call "
                                  "the function once with such arguments instead.");
}

void Blocks::made(const at::Tensor &t) {
  jit::Value *value = tracer::getTracingState()->getValue(t);
  made_.insert_or_assign(t.unsafeGetTensorImpl(), std::pair{t.getIntrusivePtr(), value});
  if (shapes::is_fake_tensor(t) || (on_fake_tensors_ && shapes::is_sparse(t))) // a literal has data
    without_data_.emplace_back(t.getIntrusivePtr(), trace_.frontend.here());
}

Site Blocks::left_behind() const {
  for (const auto &[tensor, where] : without_data_)
    if (!tensor.expired())
      return where;
  return {};
}

void Blocks::check_not_made(const at::Tensor &t) {
  const auto found = made_.find(t.unsafeGetTensorImpl());
  if (found == made_.end() || found->second.first.expired())
    return;
  reject(Rejection::staging,
         fmt::format("a tensor used at {} was made in a branch or loop that is staged, and left it "
                     "through a container, an attribute or a function's state. Assign it to a "
                     "variable there (in each branch), or collect values in a TensorArray.",
                     text(trace_.frontend.here())));
}

void Blocks::enter_fake_tensors() {
  if (on_fake_tensors_++ == 0)
    met.clear();
}

void Blocks::leave_fake_tensors() {
  substituted_.clear();
  if (--on_fake_tensors_ == 0 && !trace_.frontend.without_data())
    twins_ = {};
}

void Blocks::meet(jit::Value *scalar, const c10::IValue &value) {
  if (on_fake_tensors_)
    met.emplace(scalar, value);
}

void Blocks::meet(const at::Tensor &t) {
  if (on_fake_tensors_)
    met.emplace(tracer::getTracingState()->getValue(t), t);
}

void Blocks::forget(jit::Value *value) {
  for (const Fact fact : {Fact::layout, Fact::gradient}) {
    varying(fact).erase(value);
    read(fact).erase(value);
  }
  met.erase(value);
  for (auto &[impl, made] : made_)
    if (made.second == value)
      made.second = nullptr;
}

void Blocks::take(jit::Node *node, std::size_t taken) {
  jit::Block *around = node->owningBlock(), *block = node->blocks()[taken];
  const std::vector<jit::Node *> nodes(block->nodes().begin(), block->nodes().end());
  for (jit::Node *inner : nodes)
    inner->moveBefore(node);
  opened_.erase(block);
  trace_.forget(node);
  node->destroy();
  know_taken({around});
}

/// Tensors made in the block are known in what is around it.
void Blocks::open(const jit::Block *block) {
  opened_.insert(block);
  know_taken(opened_);
}

void Blocks::know_taken(const std::unordered_set<const jit::Block *> &taken) {
  std::erase_if(made_, [&](const auto &entry) {
    const auto &[tensor, value] = entry.second;
    if (!value || !taken.contains(value->node()->owningBlock()))
      return false;
    if (const auto alive = tensor.lock(); alive.defined())
      bind(at::Tensor(alive), value);
    return depth == 0;
  });
}

bool in_loop() {
  const jit::Block *block = tracer::getTracingState()->graph->insertPoint()->owningBlock();
  for (; block->owningNode(); block = block->owningNode()->owningBlock())
    if (block->owningNode()->kind() == c10::prim::Loop)
      return true;
  return false;
}

void Blocks::check_reshaped(const c10::OperatorHandle &op, const at::Tensor &t) {
  if (!may_be_others.contains(t.unsafeGetTensorImpl()))
    return;
  reject(
      Rejection::staging,
      fmt::format("{} at {} changes a tensor's sizes or history in place, and a staged branch or "
                  "loop may have left that tensor as it was before it: it would change another "
                  "variable, too. Use an op that returns a new tensor.",
                  op.schema().name(), text(trace_.here())));
}

bool Blocks::varies(Fact fact, const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  if (!state->hasValue(t))
    return false;
  if (depth > 0)
    read(fact).emplace(state->getValue(t), trace_.frontend.here());
  return !varying(fact).empty() && may_have_from(fact, state->getValue(t), varying(fact));
}

} // namespace tracehost::trace
