#include "trace/value_reads.h"

#include "trace/numbers.h"
#include "trace/scope.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

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

/// Whether libtorch's argument parser has made the node of `tensor`, for an op's argument.
static bool is_parsed(const jit::Node &node, const jit::Value *tensor) {
  const auto kind = node.kind();
  return (kind == c10::aten::Int || kind == c10::aten::Float ||
          kind == c10::Symbol::fromQualString("aten::ScalarImplicit")) &&
         node.inputs().size() == 1 && node.inputs()[0] == tensor;
}

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

void Scope::refuse_read(const at::Tensor *t, const std::string &how) {
  const auto input = t ? input_of(*t) : std::nullopt;
  const std::string name = input ? input_name(input->first) : std::string();
  const bool condition = how == "aten::is_nonzero";
  std::string why = condition ? frontend_.why_not_staged() : std::string();
  if (!why.empty())
    why = fmt::format(" (It is not staged: {}.)", why);
  refuse(Refusal::value_read,
         fmt::format("the body reads the value of {} ({}) at {}, which a graph can't repeat.{} "
                     "Keep the computation in tensors (torch.where, masks{}),{} or move the read "
                     "out of the function.",
                     name.empty() ? "a traced tensor" : name, how, text(frontend_.here()), why,
                     condition ? "" : "; under autograph, if, while and range() take tensors",
                     name.empty() ? "" : " have a graph for each value (value_reads=\"guard\"),"));
}

void Scope::refuse_guard(const std::string &what, const std::string &how, const std::string &why) {
  refuse(Refusal::value_read,
         fmt::format("the body reads the value of {} ({}) at {}, {}. Keep the computation in "
                     "tensors (torch.where, masks), or move the read out of the function.",
                     what, how, text(frontend_.here()), why));
}

void Scope::read(const at::Tensor &t, const std::string &how, bool as_numbers) {
  if (refuses_reads())
    refuse_read(&t, how);
  if (!as_numbers)
    refuse_guard("a traced tensor", how,
                 "and gets hold of its memory, not of numbers that could be compared or kept");
  if (without_data() || shapes::is_stand_in(t) || t.key_set().has(c10::DispatchKey::Python))
    refuse_guard("a traced tensor", how,
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
    refuse_guard("a tensor that it computes", how,
                 "and value_reads=\"guard\" can compare only the values of what is passed or "
                 "captured, before the graph runs");
  std::string name = input_name(input->first);
  if (name.empty())
    name = "an input";
  if (!inputs_->is_unchanged(input->second))
    refuse_guard(name, how,
                 "after it may have been changed, and value_reads=\"guard\" can compare only the "
                 "values that inputs have before the graph runs");
  if (t.numel() > kMostGuarded)
    refuse_guard(name, how,
                 fmt::format("{} numbers, and value_reads=\"guard\" compares at most {} of a "
                             "tensor at each call",
                             t.numel(), kMostGuarded));
  if (!can_be_guarded(t))
    refuse_guard(name, how, "and value_reads=\"guard\" can compare only dense tensors");
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

/// Whether an op that reads values runs as it is, by what the user allows; refuses otherwise. One
/// that has nothing to do with tensors does.
bool Scope::runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (traits(op).aside)
    return true;
  if (!traits(op).reads_value)
    return false;
  if (reads_as_ == ValueReads::trace)
    return reads_number(op, stack);
  if (reads_as_ == ValueReads::error)
    return false;
  const auto arguments =
      c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - op.schema().arguments().size());
  bool sizes = false;
  each_tensor(arguments, [&](const at::Tensor &t) { sizes |= relaxed && relaxed->is_size(t); });
  if (sizes)
    return false;
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (!t.unsafeGetTensorImpl()->is_wrapped_number())
      read(t, op.schema().name(), true);
  });
  stale_stash_ = true;
  return true;
}

/// libtorch's argument parser reads a traced number for an op, which comes next and has it from the
/// graph; it is refused there if the op does not.
bool Scope::reads_number(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const std::string_view name = op.schema().name();
  if ((name != "aten::item" && name != "aten::_local_scalar_dense" && name != "aten::is_nonzero") ||
      !is_traced_number(stack.back().toTensor()))
    return false;
  const at::Tensor &t = stack.back().toTensor();
  if (name == "aten::is_nonzero")
    refuse_number(t, "bool()");
  if (shapes::is_stand_in(t))
    refuse_number(t, "as an argument of an op, where it has no value: in a branch or loop that is "
                     "staged, or in a trace from specs");
  numbers_read_.push_back(tracer::getTracingState()->getValue(t));
  return true;
}

void Scope::read_by_c_code(const at::Tensor &number) {
  numbers_read_.push_back(tracer::getTracingState()->getValue(number));
}

/// Whether an op's results are of the sizes that its numbers say.
static bool is_size_argument(const c10::FunctionSchema &schema, std::size_t i) {
  if (i >= schema.arguments().size())
    return true;
  const auto kind = schema.arguments()[i].type()->kind();
  const std::string_view name = schema.name();
  return (kind != c10::TypeKind::NumberType && kind != c10::TypeKind::FloatType &&
          kind != c10::TypeKind::BoolType) ||
         name == "aten::arange" || name == "aten::range";
}

/// After an op that the body calls: the numbers that were read before it are among its arguments.
void Scope::settle_numbers(const c10::OperatorHandle *op) {
  for (jit::Value *tensor : std::exchange(numbers_read_, {})) {
    bool found = false;
    for (jit::Node *node = tensor->node()->next(); !found && is_parsed(*node, tensor);
         node = node->next())
      for (const auto &use : node->output()->uses()) {
        found |= op && parsed_.insert(node).second;
        if (found && is_size_argument(op->schema(), use.offset))
          for (jit::Value *output : use.user->outputs())
            inexact.insert(output);
      }
    if (!found)
      refuse(Refusal::value_read,
             fmt::format("a number that the body has read from a tensor is used by C code at {}, "
                         "which a graph can't repeat. Keep the computation in tensors, or move "
                         "the read out of the function.",
                         text(frontend_.here())));
  }
}

void read_values(const at::Tensor &t, const std::string &how, bool as_numbers) {
  current->read(t, how, as_numbers);
}

} // namespace tracehost::trace
