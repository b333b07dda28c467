#include "trace/state.h"

#include "program/nodes.h"
#include "trace/ancestry.h"
#include "trace/scope.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

namespace {

template <class Function> auto op(const char *name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
}

} // namespace

at::Tensor data_of(const at::Tensor &t) {
  static const auto data = op<at::Tensor(const at::Tensor &)>("tracehost::data");
  return data.call(t);
}

void set_data(const at::Tensor &t, const at::Tensor &data) {
  if (current)
    current->sets_data = true;
  static const auto set = op<void(const at::Tensor &, const at::Tensor &)>("tracehost::set_data");
  set.call(t, data);
}

void set_requires_grad(const at::Tensor &t, bool on) {
  static const auto set = op<void(const at::Tensor &, bool)>("tracehost::requires_grad_");
  current->is_leaf_of_body(t);
  set.call(t, on);
}

void Scope::is_leaf_of_body(const at::Tensor &t) {
  leaves_.insert_or_assign(t.unsafeGetTensorImpl(), t.getIntrusivePtr());
}

/// `torch.zeros(3, requires_grad=True)` is an op, and then a flag that no op sets: that is one
/// where the tensor was made.
void Scope::note_leaf(const at::Tensor &t) {
  if (!t.requires_grad() || !t.is_leaf() || t.is_view()) // a view under no_grad says it does
    return;
  const auto *impl = t.unsafeGetTensorImpl();
  if (captured_.contains(impl) || leaves_.contains(impl))
    return;
  for (const at::Tensor &slot : slots_)
    if (slot.is_same(t))
      return;
  is_leaf_of_body(t);
  jit::Value *value = tracer::getTracingState()->getValue(t);
  if (value->node()->kind() == c10::prim::Param)
    return;
  jit::Graph &graph = *value->owningGraph();
  const jit::WithInsertPoint after(value->node()->next());
  insert_op(graph, "tracehost::requires_grad_", {value, graph.insertConstant(true)}, 0);
}

void Scope::check_reshaped(const c10::OperatorHandle &op, const at::Tensor &t) {
  if (!may_be_others.contains(t.unsafeGetTensorImpl()))
    return;
  reject(
      Rejection::staging,
      fmt::format("{} at {} changes a tensor's sizes or history in place, and a staged branch or "
                  "loop may have left that tensor as it was before it: it would change another "
                  "variable, too. Use an op that returns a new tensor.",
                  op.schema().name(), text(here())));
}

void check_memory_is_own(const at::Tensor &t, const std::string &how) {
  if (!made_its_memory(t))
    reject(
        Rejection::value_read,
        fmt::format("the body reads Tensor.{} at {}, of memory that it did not make: another "
                    "call may pass the same sizes and strides from elsewhere in memory. Move the "
                    "read out of the function, and pass it as an argument.",
                    how, text(current->here())));
}

void check_memory_read(const at::Tensor &t, const std::string &how) {
  check_memory_is_own(t, how);
  note_strides_read(t); // what the body made lies as its inputs do
}

bool made_its_memory(const at::Tensor &t) {
  current->know(t); // as a capture, if it is one
  return current->made_its_memory(t);
}

bool Scope::made_its_memory(const at::Tensor &t) const {
  const auto shares = [&](const at::Tensor &input) {
    return input.has_storage() &&
           input.storage().unsafeGetStorageImpl() == t.storage().unsafeGetStorageImpl();
  };
  const auto captured = [&](const Capture &capture) { return shares(capture.tensor); };
  return !on_fake_tensors_ && t.has_storage() &&
         std::none_of(slots_.begin(), slots_.end(), shares) &&
         std::none_of(result.captures.begin(), result.captures.end(), captured);
}

bool Scope::may_lie_as_inputs(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return sets_data || !state->hasValue(t) || trace::may_lie_as_inputs(state->getValue(t));
}

bool Scope::varies(Fact fact, const at::Tensor &t) {
  const auto &state = tracer::getTracingState();
  if (!state->hasValue(t))
    return false;
  if (blocks > 0)
    read_in_blocks(fact).emplace(state->getValue(t), frontend_.here());
  return !varying(fact).empty() && may_have_from(fact, state->getValue(t), varying(fact));
}

} // namespace tracehost::trace
