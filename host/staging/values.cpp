#include "staging/values.h"

#include "trace/block.h"
#include "trace/tracer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>
#include <ATen/ops/full.h>

#include <algorithm>

namespace tracehost::staging {

namespace jit = torch::jit;

at::Tensor new_identity(const at::Tensor &t) {
  const trace::Paused paused;
  const at::AutoGradMode with_history(true); // as `t` has it: in no_grad too
  at::Tensor other = at::alias(t);
  trace::may_be_another(other, trace::in_eager(t)); // `t` may be gone when that is asked
  return other;
}

at::Tensor result_of_block(jit::Value *value, const at::Tensor &actual, bool inexact) {
  at::Tensor result = new_identity(actual);
  trace::bind_made(result, value);
  if (inexact)
    trace::set_inexact(value);
  return result;
}

/// Without those of dimensions of one element, which say nothing.
static std::vector<std::int64_t> strides_of(const at::Tensor &t) {
  std::vector<std::int64_t> strides;
  if (t.layout() == at::kStrided)
    for (std::int64_t d = 0; d < t.dim(); ++d)
      strides.push_back(t.size(d) == 1 ? 0 : t.stride(d));
  return strides;
}

bool may_lie_otherwise(const at::Tensor &a, const at::Tensor &b) {
  const auto is_small = [](const at::Tensor &t) {
    return std::ranges::any_of(t.sizes(), [](std::int64_t size) { return size <= 1; });
  };
  return strides_of(a) != strides_of(b) ||
         (trace::has_dynamic_sizes() && (is_small(a) || is_small(b)));
}

jit::Value *truth_of(const at::Tensor &condition) {
  jit::Value *value = trace::value_of(condition);
  return value->owningGraph()->insert(c10::aten::Bool, {value});
}

jit::Value *int_of(const at::Tensor &number) {
  jit::Value *value = trace::value_of(number);
  return value->node()->kind() == c10::prim::NumToTensor
             ? value->node()->input(0)
             : value->owningGraph()->insert(c10::aten::Int, {value});
}

at::Tensor tensor_of(jit::Value *number, std::int64_t now) {
  at::Tensor result;
  {
    const trace::Paused paused;
    result = at::full({}, now, at::kLong);
  }
  auto &graph = *number->owningGraph();
  trace::bind(result, graph.insertNode(graph.createNumToTensor(number))->output());
  return result;
}

} // namespace tracehost::staging
