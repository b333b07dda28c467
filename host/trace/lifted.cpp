#include "trace/lifted.h"

#include "trace/scope.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Scope::lift() {
  static thread_local std::uint64_t blocks = 0;
  lifted.emplace(++blocks, here(), tracer::getTracingState(),
                 std::make_unique<ModesOfCall>(frontend_, at_call_, without_data()));
  set_tracing_state(nullptr);
}

void Scope::land(bool at_end) {
  if (at_end)
    lifted->modes->stay();
  const auto state = std::move(lifted->state);
  lifted.reset();
  if (!abandoned_)
    set_tracing_state(state);
}

bool Scope::is_traced(const at::Tensor &t) const {
  const auto &state = lifted->state;
  if (!state->hasValue(t))
    return false;
  const Resumed resumed; // libtorch asks the thread's own state
  const jit::Value *value = state->getValue(t);
  const auto captures = state->graph->inputs().size() - result.captures.size();
  return value->node()->kind() != c10::prim::Param || value->offset() < captures;
}

void Scope::outside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!trace::lifted()) {
    if (witness_)
      witness_->before(op, stack);
    return;
  }
  if (witness_)
    witness_->before_lifted(op, stack);
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    if (!is_traced(t))
      return;
    if (is_traced_size(t))
      specialize_size(t, "a size in init_scope");
    else
      reject(Rejection::trace,
             fmt::format("a traced tensor is used in init_scope ({}) at {}: the block runs once, "
                         "at the trace, and such a tensor has another value at each call. Use "
                         "there what does not depend on the arguments' values (shape, dtype and "
                         "device are fine), or move this out of the block.",
                         op.schema().name(), text(here())));
  });
}

std::uint64_t enter_lifted() {
  if (!recording())
    return 0;
  current->lift();
  return current->lifted->number;
}

void leave_lifted(std::uint64_t block) {
  if (block != 0 && current && current->lifted && current->lifted->number == block)
    current->land();
}

bool lifted() { return current && current->lifted && !current->lifted->resumed; }
bool guarded() { return current && !current->abandoned() && (tracer_records() || lifted()); }
bool in_kernel() { return op_depth() > 0 && tracer::isTracing() && !tracer_records(); }
bool is_traced(const at::Tensor &t) { return current->is_traced(t); }

Resumed::Resumed() : resumed_(lifted()) {
  if (!resumed_)
    return;
  current->lifted->resumed = true;
  set_tracing_state(current->lifted->state);
}
Resumed::~Resumed() {
  if (!resumed_)
    return;
  set_tracing_state(nullptr);
  current->lifted->resumed = false;
}

} // namespace tracehost::trace
