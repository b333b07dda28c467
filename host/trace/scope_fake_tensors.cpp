#include "trace/numbers.h"
#include "trace/scope.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

/// A sparse tensor that an op has given without data: it has no elements, and needs no twin.
bool Scope::made_without_data(const at::Tensor &t) const {
  if (!shapes::is_sparse(t))
    return false;
  const auto &state = tracer::getTracingState();
  if (!on_fake_tensors_)
    return state->hasValue(t) && state->getValue(t)->node()->kind() != c10::prim::Param;
  return std::any_of(without_data_.begin(), without_data_.end(), [&](const auto &made) {
    return made.first._unsafe_get_target() == t.unsafeGetTensorImpl();
  });
}

at::Tensor Scope::fake_tensor(const at::Tensor &t) {
  if (!without_data() || made_without_data(t))
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

bool Scope::is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!without_data() || !dynamic_sizes)
    return false;
  substituted_.clear();
  bool any = false, all = true;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    // The index of a loop counts as a size, and has no value.
    const bool is_size = dynamic_sizes->is_size(t) && !shapes::is_fake_tensor(t);
    any |= is_size;
    all &= is_size || t.unsafeGetTensorImpl()->is_wrapped_number();
  });
  return any && all;
}

void Scope::substitute(const c10::OperatorHandle &op, jit::Stack &stack) {
  if (traits(op).takes_number && op.schema().name() == "aten::index_put_")
    cast_number(stack);
  if (!without_data())
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

void Scope::note_written(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const jit::Block *block = tracer::getTracingState()->graph->insertPoint()->owningBlock();
  each_written(op, stack, [&](const at::Tensor &t) {
    const auto found = of_blocks_.find(t.unsafeGetTensorImpl());
    const jit::Value *value = found == of_blocks_.end() ? nullptr : found->second.second;
    const bool made = value && value->node()->kind() != c10::prim::Param; // else a loop carries it
    reshapes.before_write(block, made ? value->node()->owningBlock() : nullptr, t);
  });
}

/// The body still sees the tensor itself, which an op does not change in such a trace.
void Scope::check_substituted(const c10::OperatorHandle &op) {
  const auto differ = [](const at::Tensor &t, const at::Tensor &twin) {
    return t.requires_grad() != twin.requires_grad() ||
           (t.layout() == at::kStrided &&
            (t.sizes() != twin.sizes() || t.strides() != twin.strides()));
  };
  bool changes = blocks && without_data() && traits(op).writes &&
                 reshapes.any(tracer::getTracingState()->graph->insertPoint()->owningBlock());
  for (const auto &[t, twin] : substituted_)
    changes |= differ(t, twin);
  if (!changes)
    return;
  const std::string what =
      fmt::format("{} at {} changes the shape or requires_grad of a tensor in place",
                  op.schema().name(), text(frontend_.here()));
  if (blocks)
    reject(Rejection::staging, what + ", in a branch or loop that is staged. Use an op that "
                                      "returns a new tensor.");
  reject(Rejection::trace, what + ", which can't be followed in a trace without example data. Call "
                                  "the function once with such arguments instead.");
}

} // namespace tracehost::trace
