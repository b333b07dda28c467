#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

/// Reads of values by ops: sizes, numbers, and those that no graph can repeat. What gives a traced
/// number is in numbers.h.

void Trace::reject_read(const at::Tensor *t, const std::string &how, const Site &where) {
  const auto input = t ? inputs.find(*t) : std::nullopt;
  const std::string name = input ? inputs.name(input->first) : std::string();
  const bool condition = how == "aten::is_nonzero";
  std::string why = condition ? frontend.why_not_staged() : std::string();
  if (!why.empty())
    why = fmt::format(" (It is not staged: {}.)", why);
  const bool by_call = how.starts_with("Tensor.") && where.inside.empty();
  reject(Rejection::value_read,
         fmt::format("the body reads the value of {} ({}) at {}, which a graph can't repeat.{} "
                     "Keep the computation in tensors (torch.where, masks{}), {}move the read "
                     "out of the function{}.",
                     name.empty() ? "a traced tensor" : name, how, text(where), why,
                     condition ? "" : "; under autograph, if, while and range() take tensors",
                     by_call ? "" : "or ",
                     by_call ? ", or let the graph call this code by tracehost.py_function" : ""));
}

void Trace::reject_read(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const at::Tensor *first = nullptr;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) { first = first ? first : &t; });
  reject_read(first, op.schema().name(), frontend.here());
}

void Trace::unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const bool reads = traits(op).reads_value;
  if (!reads && !dynamic_sizes)
    return;
  each_tensor(arguments_of(op, stack), [&](const at::Tensor &t) {
    if (!tracer::getTracingState()->hasValue(t))
      return;
    if (dynamic_sizes && dynamic_sizes->is_size(t))
      dynamic_sizes->specialize(t, "torch.tensor() of a size");
    else if (reads)
      reject_read(&t, op.schema().name(), frontend.here());
  });
}

/// A size that torch reads as a number or a bool: recorded by what takes it, or a condition.
bool Trace::reads_size(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (op_depth() > 0 && reading_size_)
    return true;
  reading_size_ = false;
  const bool truth = op.schema().name() == "aten::is_nonzero";
  if (!truth && !traits(op).is_item)
    return false;
  const at::Tensor &t = stack.back().toTensor();
  if (!dynamic_sizes->is_size(t))
    return false;
  if (truth)
    dynamic_sizes->truth(t);
  else
    dynamic_sizes->index(t);
  reading_size_ = true;
  return true;
}

/// Whether an op that reads values runs as it is. An op that has nothing to do with tensors does.
bool Trace::runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (traits(op).aside)
    return true;
  return traits(op).reads_value && traces_reads_ &&
         (number_arguments.reads(op, stack) || speculation.reads(op, stack));
}

void reject_read(const at::Tensor &t, const std::string &how) {
  current->reject_read(&t, how, current->here());
}

} // namespace tracehost::trace
