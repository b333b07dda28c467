#include "staging/select.h"

#include "staging/values.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/select.h>

#include <vector>

namespace tracehost::staging {

namespace jit = torch::jit;

namespace {

at::Tensor selected(const at::Tensor &t, std::int64_t dimension, const at::Tensor &index) {
  if (!trace::without_data()) {
    const std::int64_t i = trace::integer_now(index);
    const trace::Paused paused;
    return at::select(t, dimension, i);
  }
  const at::Tensor twin = trace::fake_tensor_for(t);
  const trace::Paused paused;
  if (twin.size(dimension) > 0)
    return at::select(twin, dimension, 0);
  std::vector<std::int64_t> sizes = twin.sizes().vec();
  sizes.erase(sizes.begin() + dimension);
  return twin.new_empty(sizes);
}

} // namespace

at::Tensor select(const at::Tensor &t, std::int64_t dimension, const at::Tensor &index) {
  trace::record_modes();
  trace::note_raising("aten::select");
  jit::Value *of = trace::value_of(t);
  jit::Value *i = int_of(index);
  jit::Value *value =
      trace::record_op("aten::select", {of, of->owningGraph()->insertConstant(dimension), i})
          ->output();
  trace::keep(value);
  at::Tensor result = selected(t, dimension, index);
  trace::bind_made(result, value);
  if (trace::is_inexact(of))
    trace::set_inexact(value);
  return result;
}

} // namespace tracehost::staging
