#include "trace/trace.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

/// Reads of values that no graph can repeat; what gives a traced number is in numbers.h.

void Trace::reject_read(const at::Tensor *t, const std::string &how, const Site &where) {
  const auto input = t ? inputs.find(*t) : std::nullopt;
  const std::string name = input ? inputs.name(input->first) : std::string();
  const bool condition = how == "aten::is_nonzero";
  std::string why = condition ? frontend.why_not_staged() : std::string();
  if (!why.empty())
    why = fmt::format(" (It is not staged: {}.)", why);
  reject(Rejection::value_read,
         fmt::format("the body reads the value of {} ({}) at {}, which a graph can't repeat.{} "
                     "Keep the computation in tensors (torch.where, masks{}), or move the read "
                     "out of the function.",
                     name.empty() ? "a traced tensor" : name, how, text(where), why,
                     condition ? "" : "; under autograph, if, while and range() take tensors"));
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
