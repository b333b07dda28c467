#include "staging/identity.h"

#include "trace/block.h"
#include "trace/tracer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>

namespace tracehost::staging {

at::Tensor new_identity(const at::Tensor &t) {
  const trace::Paused paused;
  const at::AutoGradMode with_history(true); // as `t` has it: in no_grad too
  at::Tensor other = at::alias(t);
  trace::may_be_another(other, t);
  return other;
}

torch::jit::Value *truth_of(const at::Tensor &condition) {
  torch::jit::Value *value = trace::value_of(condition);
  return value->owningGraph()->insert(c10::aten::Bool, {value});
}

} // namespace tracehost::staging
