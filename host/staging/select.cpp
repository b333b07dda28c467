#include "staging/select.h"

#include "staging/number.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/select.h>
#include <torch/csrc/jit/frontend/tracer.h>

#include <vector>

namespace tracehost::staging {

namespace jit = torch::jit;

namespace {

at::Tensor selected(const at::Tensor &t, std::int64_t dimension, const at::Tensor &index) {
  if (!trace::without_data()) {
    const std::int64_t i = value_now(index);
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
  auto &graph = *of->owningGraph();
  jit::Value *i = int_of(index);
  jit::Node *node = graph.create(c10::aten::select, {of, graph.insertConstant(dimension), i});
  jit::tracer::recordSourceLocation(node);
  graph.insertNode(node);
  at::Tensor result = selected(t, dimension, index);
  trace::bind(result, node->output());
  if (trace::is_inexact(of))
    trace::set_inexact(node->output());
  return result;
}

} // namespace tracehost::staging
