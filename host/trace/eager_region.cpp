#include "trace/eager_region.h"

#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Trace::lift() {
  static thread_local std::uint64_t blocks = 0;
  eager_region.emplace(++blocks, here(), tracer::getTracingState(),
                       std::make_unique<ModesOfCall>(frontend, at_call_, without_data()));
  set_tracing_state(nullptr);
}

void Trace::land(bool at_end) {
  if (at_end)
    eager_region->modes->stay();
  const auto state = std::move(eager_region->state);
  eager_region.reset();
  if (!abandoned())
    set_tracing_state(state);
}

bool Trace::is_traced(const at::Tensor &t) const {
  const auto &state = eager_region->state;
  if (!state->hasValue(t))
    return false;
  const Resumed resumed; // libtorch asks the thread's own state
  const jit::Value *value = state->getValue(t);
  const auto captures = state->graph->inputs().size() - result.captures.size();
  return value->node()->kind() != c10::prim::Param || value->offset() < captures;
}

void Trace::outside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!trace::in_eager_region()) {
    if (witness)
      witness->before(op, stack);
    return;
  }
  if (witness)
    witness->before_eager_op(op, stack);
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

std::uint64_t enter_eager_region() {
  if (!recording())
    return 0;
  current->lift();
  return current->eager_region->number;
}

void leave_eager_region(std::uint64_t block) {
  if (block != 0 && current && current->eager_region && current->eager_region->number == block)
    current->land();
}

bool in_eager_region() {
  return current && current->eager_region && !current->eager_region->resumed;
}
bool guarded() {
  return current && !current->abandoned() && (tracer_records() || in_eager_region());
}
bool in_kernel() { return op_depth() > 0 && tracer::isTracing() && !tracer_records(); }
bool is_traced(const at::Tensor &t) { return current->is_traced(t); }

Resumed::Resumed() : resumed_(in_eager_region()) {
  if (!resumed_)
    return;
  current->eager_region->resumed = true;
  set_tracing_state(current->eager_region->state);
}
Resumed::~Resumed() {
  if (!resumed_)
    return;
  set_tracing_state(nullptr);
  current->eager_region->resumed = false;
}

} // namespace tracehost::trace
