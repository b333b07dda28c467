#include "trace/effects.h"

#include "shapes/kernels.h"
#include "trace/ancestry.h"
#include "trace/op_tensors.h"
#include "trace/trace.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <string_view>

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

static bool draws(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!traits(op).random)
    return false;
  const auto &arguments = op.schema().arguments();
  const auto values = arguments_of(op, stack);
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (shapes::stops_draws(op.schema().name(), arguments[i].name(), values[i]))
      return false;
  return true;
}

/// Whether the op changes a tensor's object alone, and the body made the object, of memory from
/// outside: `x.detach().requires_grad_()`.
static bool changes_own_object(const c10::OperatorHandle &op, const at::Tensor &t) {
  if (op.schema().name() != "tracehost::requires_grad_")
    return false;
  static const auto data = c10::Symbol::fromQualString("tracehost::data");
  const auto made = tracer::getTracingState()->getValue(t)->node()->kind();
  return made == c10::aten::detach || made == data; // ops that never return their argument
}

/// Whether a copy of the values of `t` is enough to undo the op's change of `t`.
static bool changes_values_alone(const c10::OperatorHandle &op, const jit::Stack &stack,
                                 const at::Tensor &t) {
  if (traits(op).reshapes || !std::string_view(op.schema().name()).starts_with("aten::") ||
      t.layout() != at::kStrided || (!t.has_storage() && !shapes::is_fake_tensor(t)) ||
      t.key_set().has(c10::DispatchKey::Python))
    return false;
  // An `out=` of another size is resized. What an op writes by its schema gets a history, where one
  // of its arguments has one; running statistics get none.
  bool plain = true, declared = false;
  for (const c10::Argument &argument : op.schema().arguments()) {
    plain &= !argument.is_out();
    declared |= argument.alias_info() && argument.alias_info()->isWrite();
  }
  if (declared && at::GradMode::is_enabled())
    each_tensor(arguments_of(op, stack), [&](const at::Tensor &u) { plain &= !u.requires_grad(); });
  return plain;
}

void Effects::note(const std::string &what) {
  if (first.empty())
    first = fmt::format("{} at {}", what, text(trace_.frontend.here()));
}

void Effects::note_draw(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto arguments = arguments_of(op, stack);
  std::vector<c10::Device> devices{at::kCPU};
  for (const c10::IValue &value : arguments) {
    if (value.isGenerator() && value.toGenerator().defined())
      return saves.generator(value.toGenerator());
    if (value.isDevice())
      devices.push_back(value.toDevice());
  }
  each_tensor(arguments, [&](const at::Tensor &t) { devices.push_back(t.device()); });
  for (const c10::Device &device : devices) {
    if (device.is_cpu() || (device.is_cuda() && at::hasCUDA()))
      saves.generator(at::globalContext().defaultGenerator(device));
  }
}

void Effects::note_op(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!first.empty())
    return;
  const OpTraits &of = traits(op);
  const std::string &name = op.schema().name();
  if (draws(op, stack))
    note_draw(op, stack);
  if (of.functional || of.unrecorded || name.starts_with("tracehost::set"))
    return note(name);
  if (!of.writes)
    return;
  each_written(op, stack, [&](const at::Tensor &t) {
    if (changes_own_object(op, t))
      return;
    const bool outside = !t.has_storage() ||
                         (shapes::is_fake_tensor(t)
                              ? may_share_memory_with_inputs(tracer::getTracingState()->getValue(t))
                              : trace_.inputs.has_memory(t.storage().unsafeGetStorageImpl()));
    if (!outside)
      return;
    if (changes_values_alone(op, stack, t))
      saves.data(*tracer::getTracingState()->graph, t, tracer::getTracingState()->getValue(t));
    else
      note(name);
  });
}

void Effects::note_raising(const std::string &op) {
  if (trace_.blocks.on_fake_tensors())
    return;
  if (!trace_.frontend.acts_on_raise())
    return;
  if (first.empty() && !in_loop())
    saves.need_to_end(*tracer::getTracingState()->graph, trace_.speculation.head());
  else if (const Site where = trace_.frontend.catches(); where.line)
    caught_.push_back({op, where});
}

void Effects::note_raise() {
  trace_.result.raises_late |= !first.empty() || !saves.empty() || in_loop();
}

bool Effects::undoable() const { return first.empty() && saves.all_needed() && !in_loop(); }

void Effects::close() {
  Traced &result = trace_.result;
  result.changes = !first.empty() || !saves.empty();
  if (result.changes) // else the body can run in place of a graph whose op fails
    result.caught.insert(result.caught.end(), caught_.begin(), caught_.end());
  constexpr std::size_t kWorthSaying = 1 << 20;
  const std::size_t bytes = saves.close(*tracer::getTracingState()->graph);
  if (bytes > kWorthSaying && !result.checked.empty())
    result.notes.push_back(
        fmt::format("each hit copies {:.1f} MB, which a failed check restores: the "
                    "last check is at {}",
                    static_cast<double>(bytes) / kWorthSaying, result.checked.back().where));
}

} // namespace tracehost::trace
