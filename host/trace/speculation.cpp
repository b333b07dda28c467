#include "shapes/kernels.h"
#include "trace/ancestry.h"
#include "trace/block.h"
#include "trace/numbers.h"
#include "trace/op_tensors.h"
#include "trace/scope.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

/// Numbers whose value the body needs.
///
/// Problem: an `if` of library code, a dict key or C code needs the value itself, and a later call
/// may have another one. Answer: the trace continues with the value of this call, and the graph
/// checks the value at that place. A call whose check fails leaves nothing behind; then the graph
/// for another value is tried, or one more is traced (function/).
///
///     if mask.any():          %2 : bool = aten::is_nonzero(%1)
///         y = f(x)            tracehost::check_number(%2, True)
///
/// State that changes before a check is saved, and restored by a check that fails (saves.h): values
/// of tensors from outside, `.grad`s, states of generators. Some changes cannot be undone: Python
/// that is called, a backward pass through a graph from outside, an op that changes what a tensor
/// is. A body with a check behind such a change is unsupported, and the message names both lines. A
/// check that follows from slots alone comes first in the graph (head.h). Floats are not checked:
/// each call would have another one, so such a trace serves its own call alone. A float that is
/// computed of constants alone is the same at each call.

namespace tracehost::trace {

namespace tracer = torch::jit::tracer;

void Scope::note_effect(const std::string &what) {
  if (effect.empty())
    effect = fmt::format("{} at {}", what, text(frontend_.here()));
}

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

void Scope::note_draw(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto arguments = arguments_of(op, stack);
  std::vector<c10::Device> devices{at::kCPU};
  for (const c10::IValue &value : arguments) {
    if (value.isGenerator() && value.toGenerator().defined())
      return saves_.generator(value.toGenerator());
    if (value.isDevice())
      devices.push_back(value.toDevice());
  }
  each_tensor(arguments, [&](const at::Tensor &t) { devices.push_back(t.device()); });
  for (const c10::Device &device : devices) {
    if (device.is_cpu() || (device.is_cuda() && at::hasCUDA()))
      saves_.generator(at::globalContext().defaultGenerator(device));
  }
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

void Scope::note_effects(const c10::OperatorHandle &op, const jit::Stack &stack) {
  if (!effect.empty())
    return;
  const OpTraits &of = traits(op);
  const std::string &name = op.schema().name();
  if (draws(op, stack))
    note_draw(op, stack);
  if (of.functional || of.unrecorded || name.starts_with("tracehost::set"))
    return note_effect(name);
  if (!of.writes)
    return;
  each_written(op, stack, [&](const at::Tensor &t) {
    const bool outside = !t.has_storage() ||
                         (shapes::is_fake_tensor(t)
                              ? may_share_memory_with_inputs(tracer::getTracingState()->getValue(t))
                              : outside_.contains(t.storage().unsafeGetStorageImpl()));
    if (!outside)
      return;
    if (changes_values_alone(op, stack, t))
      saves_.data(*tracer::getTracingState()->graph, t, tracer::getTracingState()->getValue(t));
    else
      note_effect(name);
  });
}

/// A check: of `scalar`, which is what `expected` says.
void Scope::insert_check(const char *name, jit::Value *scalar, const c10::IValue &expected) {
  jit::Graph &graph = *tracer::getTracingState()->graph;
  const auto insert = [&] {
    return record_op(name, {scalar, number_constant(graph, expected)}, 0);
  };
  if (is_of_head(scalar)) {
    head().check(scalar, insert);
    return;
  }
  saves_.need(graph, head());
  insert();
}

void Scope::speculate(jit::Value *scalar, const c10::IValue &actual, const std::string &how,
                      const std::string &where) {
  const auto reject_it = [&](const std::string &why, Rejection kind = Rejection::value_read) {
    reject(kind,
           fmt::format("the body uses a tensor's number as a Python value ({}) at {}{}. Keep the "
                       "computation in numbers and tensors (torch.where, masks; under "
                       "autograph, if, while and range() take them), or move the read out of the "
                       "function.",
                       how, where, why));
  };
  if (actual.isDouble() && !is_of_constants(scalar)) {
    if (!frontend_.serves_once(fmt::format("needs the value of a float ({}) at {}", how, where)))
      reject_it(": a float, which a later call would hardly have again");
    return;
  }
  const bool early = is_of_head(scalar);
  if (!early && !effect.empty())
    return reject_it(fmt::format(
        ", after {}, which could not be taken back for a call with another value", effect));
  const std::string value = text_of_number(actual, "").value();
  if (outcomes && !early) { // a number of slots alone is no other than a guard on them
    const auto known = outcomes->values.find(where);
    if (known != outcomes->values.end() && !known->second.contains(value) &&
        known->second.size() >= Outcomes::most_values)
      return reject_it(
          fmt::format(", which already has {} graphs, one for each value", known->second.size()),
          Rejection::limit);
    if (!may_branch())
      return reject_it(
          fmt::format(", and {} graphs for other values serve these arguments", outcomes->graphs),
          Rejection::limit);
  }
  insert_check("tracehost::check_number", scalar, actual);
  result.checked.push_back({where, value});
}

void Scope::check_kind(jit::Value *scalar, NumberKind actual) {
  if (!is_of_head(scalar) && !effect.empty())
    reject(Rejection::value_read,
           fmt::format("the type of a number at {} depends on values, after {}, which could not be "
                       "taken back for a call with another type. Give it one type (float(), "
                       "int()) before, or compute it earlier.",
                       text(frontend_.here()), effect));
  insert_check("tracehost::check_kind", scalar, static_cast<std::int64_t>(actual));
  constexpr std::array kinds{"a bool", "an int", "a float"};
  result.checked.push_back({text(frontend_.here()), kinds[static_cast<std::size_t>(actual)]});
}

void Scope::check_raises(const NumberOp &op, const std::vector<jit::Value *> &operands, bool raises,
                         bool known) {
  // Python raises nothing there: the result may be an int past 64 bits.
  static constexpr std::array<std::string_view, 6> never{"add", "sub", "mul",
                                                         "neg", "abs", "invert"};
  if (std::find(never.begin(), never.end(), op.name) != never.end())
    return;
  const Site caught = raises ? frontend_.here() : frontend_.catches();
  if (!caught.line)
    return;
  if (!known || !may_check()) {
    if (!raises)
      result.caught.push_back({std::string(op.name), caught});
    else if (raised.empty())
      raised =
          fmt::format("an operation on numbers ({}) raised at {}, and the body continued: a graph "
                      "can't catch what it raises after {}. Test the number before, or move "
                      "the attempt out of the function.",
                      op.name, text(caught), effect.empty() ? "many others" : effect);
    return;
  }
  jit::Graph &graph = *tracer::getTracingState()->graph;
  jit::Node *node = record_op(std::string(kRaisesOp), {graph.insertConstant(std::string(op.name)),
                                                       operands.front(), operands.back()});
  node->output()->setType(c10::NumberType::get()); // TorchScript takes no `bool` for a Scalar
  insert_check("tracehost::check_number", node->output(), raises);
  result.checked.push_back({text(frontend_.here()), raises ? "an exception" : "no exception"});
}

/// A read of a tensor by code that needs the value at once: an `if`, an index, torch.equal().
bool Scope::speculates(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const std::string_view name = schema.name();
  if (without_data() || schema.returns().size() != 1)
    return false;
  const auto arguments = arguments_of(op, stack);
  bool right = true, any = false;
  each_tensor(arguments, [&](const at::Tensor &t) {
    any = true;
    right &= !shapes::is_fake_tensor(t) && t.layout() == at::kStrided &&
             !t.key_set().has(c10::DispatchKey::Python) &&
             !(dynamic_sizes && dynamic_sizes->is_size(t));
  });
  const bool scalar = traits(op).is_item;
  if (scalar && right && stack.back().toTensor().numel() != 1 && exact(stack.back().toTensor()))
    return true; // eager's error
  const auto kind = schema.returns()[0].type()->kind();
  if (!any || !right || (kind != c10::TypeKind::BoolType && !scalar))
    return false;
  if (scalar || name == "aten::is_nonzero") {
    const at::Tensor &t = stack.back().toTensor();
    if (t.numel() != 1 || (scalar && !at::isIntegralType(t.scalar_type(), true)))
      return false; // eager's error, or a float
  }
  each_tensor(arguments, [&](const at::Tensor &t) {
    if (!t.unsafeGetTensorImpl()->is_wrapped_number())
      know(t);
  });
  jit::Stack copy(arguments.begin(), arguments.end());
  {
    const PausedWithData paused;
    const Aside aside;
    op.callBoxed(&copy);
  }
  record(op, stack); // libtorch's tracer makes no node for a read
  jit::Value *value = own_node_->addOutput()->setType(c10::NumberType::get());
  const c10::IValue &read = copy.back();
  speculate(value, read.isScalar() ? c10::IValue(read.toScalar()) : read,
            name == "aten::is_nonzero" ? "bool()" : std::string(name), text(frontend_.here()));
  return true;
}

} // namespace tracehost::trace
