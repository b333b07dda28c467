#include "trace/value_reads.h"

#include "trace/scope.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

// ---- InputReads

namespace {

std::int64_t version(const at::Tensor &t) {
  return t.is_inference() ? -1 : static_cast<std::int64_t>(t._version());
}

} // namespace

void InputReads::met(const at::Tensor &t) {
  met_.try_emplace(t.unsafeGetTensorImpl(), Met{version(t), hidden_writes_});
}

void InputReads::before(const c10::OperatorHandle &op, const torch::jit::Stack &stack) {
  each_written(op, stack, [&](const at::Tensor &t) {
    if (t.has_storage())
      written_.insert(t.storage().unsafeGetStorageImpl());
  });
}

bool InputReads::is_unchanged(const at::Tensor &t) const {
  const auto found = met_.find(t.unsafeGetTensorImpl());
  return found != met_.end() && !found->second.late && found->second.version == version(t) &&
         (found->second.version >= 0 || !hidden_writes_) &&
         !(t.has_storage() && written_.contains(t.storage().unsafeGetStorageImpl()));
}

void InputReads::guard(std::uint32_t input, const at::Tensor &t, const Site &where) {
  const bool known = std::any_of(guards.begin(), guards.end(),
                                 [&](const ValueGuard &guard) { return guard.input == input; });
  if (known || t.numel() == 0)
    return;
  guards.push_back(guard_of(input, t));
  guards.back().where = text(where);
}

// ---- What the Scope makes of a read

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
                     "Keep the computation in tensors (torch.where, masks{}),{} or move the read "
                     "out of the function.",
                     name.empty() ? "a traced tensor" : name, how, text(where), why,
                     condition ? "" : "; under autograph, if, while and range() take tensors",
                     name.empty() ? "" : " have a graph for each value (value_reads=\"guard\"),"));
}

void Scope::reject_guard(const std::string &what, const std::string &how, const std::string &why) {
  reject(Rejection::value_read,
         fmt::format("the body reads the value of {} ({}) at {}, {}. Keep the computation in "
                     "tensors (torch.where, masks), or move the read out of the function.",
                     what, how, text(frontend_.here()), why));
}

void Scope::read(const at::Tensor &t, const std::string &how, bool as_numbers) {
  if (rejects_reads())
    reject_read(&t, how, frontend_.here());
  if (!as_numbers)
    reject_guard("a traced tensor", how,
                 "and gets hold of its memory, not of numbers that could be compared or kept");
  if (without_data() || shapes::is_fake_tensor(t) || t.key_set().has(c10::DispatchKey::Python))
    reject_guard("a traced tensor", how,
                 "where it has no data: in a branch or loop that is staged, or in a trace from "
                 "specs");
  if (reads_as_ == ValueReads::guard)
    guard(t, how);
  else
    bake(t, how);
}

void Scope::guard(const at::Tensor &t, const std::string &how) {
  if (!tracer::getTracingState()->hasValue(t))
    know(t);
  const auto input = input_of(t);
  if (!input)
    reject_guard("a tensor that it computes", how,
                 "and value_reads=\"guard\" can compare only the values of what is passed or "
                 "captured, before the graph runs");
  std::string name = input_name(input->first);
  if (name.empty())
    name = "an input";
  if (!inputs_->is_unchanged(input->second))
    reject_guard(name, how,
                 "after it may have been changed, and value_reads=\"guard\" can compare only the "
                 "values that inputs have before the graph runs");
  if (t.numel() > kMostGuarded)
    reject_guard(name, how,
                 fmt::format("{} numbers, and value_reads=\"guard\" compares at most {} of a "
                             "tensor at each call",
                             t.numel(), kMostGuarded));
  if (!can_be_guarded(t))
    reject_guard(name, how, "and value_reads=\"guard\" can compare only dense tensors");
  const PausedWithData paused;
  inputs_->guard(input->first, t, frontend_.here());
}

void Scope::bake(const at::Tensor &t, const std::string &how) {
  const auto input = input_of(t);
  std::string name = input ? input_name(input->first) : std::string();
  if (name.empty())
    name = "a traced tensor";
  const PausedWithData paused;
  const std::string value = can_be_guarded(t) ? ", " + text(guard_of(0, t)) : std::string();
  result.baked.push_back(
      {fmt::format("the value of {} ({}){}", name, how, value), frontend_.here()});
}

/// Whether an op that reads values runs as it is, as far as the user allows the read. Raises for an
/// unsupported read. An op that has nothing to do with tensors runs as it is.
bool Scope::runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (traits(op).aside)
    return true;
  if (!traits(op).reads_value)
    return false;
  if (reads_as_ == ValueReads::trace)
    return reads_number(op, stack) || reads_tensor(op, stack) || speculates(op, stack);
  if (reads_as_ == ValueReads::error)
    return false;
  const auto arguments = arguments_of(op, stack);
  bool sizes = false;
  each_tensor(arguments,
              [&](const at::Tensor &t) { sizes |= dynamic_sizes && dynamic_sizes->is_size(t); });
  if (sizes)
    return false;
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (!t.unsafeGetTensorImpl()->is_wrapped_number())
      read(t, op.schema().name(), true);
  });
  stale_stash_ = true;
  return true;
}

void read_values(const at::Tensor &t, const std::string &how, bool as_numbers) {
  current->read(t, how, as_numbers);
}

} // namespace tracehost::trace
