#include "trace/value_sizes.h"

#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

bool ValueSizes::exact(const at::Tensor &t) const {
  const auto &state = tracer::getTracingState();
  return values_.empty() || !state->hasValue(t) || !values_.contains(state->getValue(t));
}

/// An op returns as many tensors as its input has sizes, which depend on values: the graph checks
/// them.
void ValueSizes::check_parts(const c10::OperatorHandle &op, const jit::Stack &stack) {
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) { check(t, op.schema().name()); });
}

void ValueSizes::check(const at::Tensor &t, const std::string &what) {
  if (exact(t))
    return;
  if (!trace_.traces_reads() || trace_.without_data() || shapes::is_fake_tensor(t))
    reject_sizes(what);
  const auto &state = tracer::getTracingState();
  jit::Value *value = state->getValue(t);
  for (std::int64_t i = 0; i < t.dim(); ++i)
    trace_.speculation.speculate(state->graph->insert(c10::aten::size, {value, i}), t.size(i),
                                 what + ", a size", text(trace_.frontend.here()));
  if (trace_.blocks.depth == 0) // else another path may not have checked
    values_.erase(value);
}

/// Sizes that depend on values say which dimensions squeeze drops: the graph checks how many are
/// left. nonzero's last size is how many dimensions its tensor has.
void ValueSizes::check_rank(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &state = tracer::getTracingState();
  const at::Tensor &t = stack.back().toTensor();
  jit::Value *value = state->getValue(t);
  const jit::Node *made =
      value->node()->inputs().empty() ? nullptr : value->node()->input(0)->node();
  const bool of_one = op.schema().overload_name() == "dim";
  if (shapes::is_fake_tensor(t) || trace_.without_data() ||
      (of_one && made && made->kind() == c10::aten::nonzero))
    return;
  trace_.speculation.speculate(state->graph->insert(c10::aten::dim, {value}), t.dim(),
                               op.schema().name() + ", the number of dimensions",
                               text(trace_.frontend.here()));
}

void ValueSizes::reject_sizes(const std::string &what) {
  reject(Rejection::value_read,
         fmt::format(
             "the body reads a size ({}) that depends on a tensor's values (nonzero, unique, a "
             "mask as index, a py_function without shape=) at {}; a later call's may differ. Use "
             "torch.where or masks that keep the size, or move this out of the function.",
             what, text(trace_.frontend.here())));
}

/// The sizes of an op's results depend on numbers; of a list that is taken apart, of its tensors.
void ValueSizes::note_results(const jit::Node &node) {
  for (const jit::Value *output : node.outputs()) {
    values_.insert(output);
    for (const jit::Use &use : output->uses())
      if (use.user->kind() == c10::prim::ListUnpack)
        note_results(*use.user);
  }
}

} // namespace tracehost::trace
