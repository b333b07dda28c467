#include "staging/number.h"

#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/full.h>

namespace tracehost::staging {

namespace jit = torch::jit;

jit::Value *int_of(const at::Tensor &number) {
  jit::Value *value = trace::value_of(number);
  return value->node()->kind() == c10::prim::NumToTensor
             ? value->node()->input(0)
             : value->owningGraph()->insert(c10::aten::Int, {value});
}

std::int64_t value_now(const at::Tensor &number) {
  const trace::PausedWithData paused;
  return number.item().toLong();
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
