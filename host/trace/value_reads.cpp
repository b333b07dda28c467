#include "trace/scope.h"

#include <fmt/format.h>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

/// Reads of values that no graph can repeat; what gives a traced number is in numbers.h.

/// The input of the graph that `t` is, or is detached from, with that input's tensor.
std::optional<std::pair<std::uint32_t, at::Tensor>> Scope::input_of(const at::Tensor &t) const {
  for (std::uint32_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].is_same(t))
      return {{i, slots_[i]}};
  for (std::size_t i = 0; i < result.captures.size(); ++i)
    if (result.captures[i].tensor.is_same(t))
      return {{static_cast<std::uint32_t>(slots_.size() + i), t}};
  const auto &state = tracer::getTracingState();
  if (!state->hasValue(t))
    return std::nullopt;
  const jit::Value *value = state->getValue(t);
  while (value->node()->kind() == c10::aten::detach)
    value = value->node()->input(0);
  if (value->node() != state->graph->param_node())
    return std::nullopt;
  const auto i = static_cast<std::uint32_t>(value->offset());
  return {{i, i < slots_.size() ? slots_[i] : result.captures[i - slots_.size()].tensor}};
}

/// `'n'`; empty for what has no name.
std::string Scope::input_name(std::uint32_t input) const {
  std::string name;
  if (input < slots_.size())
    name = input < names_.size() ? names_[input] : std::string();
  else
    name = result.captures[input - slots_.size()].path;
  if (name.empty() || name.find(' ') != std::string::npos)
    return name;
  const char quote = name.find('\'') == std::string::npos ? '\'' : '"';
  return quote + name + quote;
}

void Scope::reject_read(const at::Tensor *t, const std::string &how, const Site &where) {
  const auto input = t ? input_of(*t) : std::nullopt;
  const std::string name = input ? input_name(input->first) : std::string();
  const bool condition = how == "aten::is_nonzero";
  std::string why = condition ? frontend_.why_not_staged() : std::string();
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
bool Scope::runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (traits(op).aside)
    return true;
  return traits(op).reads_value && traces_reads_ &&
         (reads_number(op, stack) || reads_tensor(op, stack) || speculates(op, stack));
}

void reject_read(const at::Tensor &t, const std::string &how) {
  current->reject_read(&t, how, current->here());
}

} // namespace tracehost::trace
