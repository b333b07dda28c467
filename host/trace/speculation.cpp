#include "trace/speculation.h"

#include "trace/ancestry.h"
#include "trace/block.h"
#include "trace/numbers.h"
#include "trace/op_tensors.h"
#include "trace/trace.h"

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

bool Speculation::may_check() const { return trace_.effects.first.empty() && may_branch(); }

Head &Speculation::head() {
  return head_ ? *head_ : head_.emplace(*tracer::getTracingState()->graph);
}

void Speculation::keep_known(const at::Tensor &number) {
  slots_known_.emplace_back(number, tracer::getTracingState()->getValue(number));
}

void Speculation::know_slots(tracer::TracingState &state) const {
  for (const auto &[number, value] : slots_known_)
    if (!state.hasValue(number))
      state.setValue(number, value);
}

/// A check: of `scalar`, which is what `expected` says.
void Speculation::insert_check(const char *name, jit::Value *scalar, const c10::IValue &expected) {
  jit::Graph &graph = *tracer::getTracingState()->graph;
  const auto insert = [&] {
    return record_op(name, {scalar, number_constant(graph, expected)}, 0);
  };
  if (is_of_head(scalar)) {
    head().check(scalar, insert);
    return;
  }
  trace_.effects.saves.need(graph, head());
  insert();
}

void Speculation::speculate(jit::Value *scalar, const c10::IValue &actual, const std::string &how,
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
    if (!trace_.frontend.serves_once(
            fmt::format("needs the value of a float ({}) at {}", how, where)))
      reject_it(": a float, which a later call would hardly have again");
    return;
  }
  const bool early = is_of_head(scalar);
  if (!early && !trace_.effects.first.empty())
    return reject_it(
        fmt::format(", after {}, which could not be taken back for a call with another value",
                    trace_.effects.first));
  const std::string value = text_of_number(actual, "").value();
  if (outcomes_ && !early) { // a number of slots alone is no other than a guard on them
    const auto known = outcomes_->values.find(where);
    if (known != outcomes_->values.end() && !known->second.contains(value) &&
        known->second.size() >= Outcomes::most_values)
      return reject_it(
          fmt::format(", which already has {} graphs, one for each value", known->second.size()),
          Rejection::limit);
    if (!may_branch())
      return reject_it(
          fmt::format(", and {} graphs for other values serve these arguments", outcomes_->graphs),
          Rejection::limit);
  }
  insert_check("tracehost::check_number", scalar, actual);
  trace_.result.checked.push_back({where, value});
}

void Speculation::check_kind(jit::Value *scalar, NumberKind actual) {
  if (!is_of_head(scalar) && !trace_.effects.first.empty())
    reject(Rejection::value_read,
           fmt::format("the type of a number at {} depends on values, after {}, which could not be "
                       "taken back for a call with another type. Give it one type (float(), "
                       "int()) before, or compute it earlier.",
                       text(trace_.frontend.here()), trace_.effects.first));
  insert_check("tracehost::check_kind", scalar, static_cast<std::int64_t>(actual));
  constexpr std::array kinds{"a bool", "an int", "a float"};
  trace_.result.checked.push_back(
      {text(trace_.frontend.here()), kinds[static_cast<std::size_t>(actual)]});
}

void Speculation::check_raises(const NumberOp &op, const std::vector<jit::Value *> &operands,
                               bool raises, bool known) {
  // Python raises nothing there: the result may be an int past 64 bits.
  static constexpr std::array<std::string_view, 6> never{"add", "sub", "mul",
                                                         "neg", "abs", "invert"};
  if (std::find(never.begin(), never.end(), op.name) != never.end())
    return;
  const Site caught = raises ? trace_.frontend.here() : trace_.frontend.catches();
  if (!caught.line)
    return;
  if (!known || !may_check()) {
    if (!raises)
      trace_.result.caught.push_back({std::string(op.name), caught});
    else if (trace_.raised.empty())
      trace_.raised =
          fmt::format("an operation on numbers ({}) raised at {}, and the body continued: a graph "
                      "can't catch what it raises after {}. Test the number before, or move "
                      "the attempt out of the function.",
                      op.name, text(caught),
                      trace_.effects.first.empty() ? "many others" : trace_.effects.first);
    return;
  }
  jit::Graph &graph = *tracer::getTracingState()->graph;
  jit::Node *node = record_op(std::string(kRaisesOp), {graph.insertConstant(std::string(op.name)),
                                                       operands.front(), operands.back()});
  node->output()->setType(c10::NumberType::get()); // TorchScript takes no `bool` for a Scalar
  insert_check("tracehost::check_number", node->output(), raises);
  trace_.result.checked.push_back(
      {text(trace_.frontend.here()), raises ? "an exception" : "no exception"});
}

/// A read of a tensor by code that needs the value at once: an `if`, an index, torch.equal().
bool Speculation::reads(const c10::OperatorHandle &op, const jit::Stack &stack) {
  const auto &schema = op.schema();
  const std::string_view name = schema.name();
  if (trace_.without_data() || schema.returns().size() != 1)
    return false;
  const auto arguments = arguments_of(op, stack);
  bool right = true, any = false;
  each_tensor(arguments, [&](const at::Tensor &t) {
    any = true;
    right &= !shapes::is_fake_tensor(t) && t.layout() == at::kStrided &&
             !t.key_set().has(c10::DispatchKey::Python) &&
             !(trace_.dynamic_sizes && trace_.dynamic_sizes->is_size(t));
  });
  const bool scalar = traits(op).is_item;
  if (scalar && right && stack.back().toTensor().numel() != 1 &&
      trace_.value_sizes.exact(stack.back().toTensor()))
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
      trace_.inputs.know(t);
  });
  jit::Stack copy(arguments.begin(), arguments.end());
  {
    const PausedWithData paused;
    const Aside aside;
    op.callBoxed(&copy);
  }
  trace_.record(op, stack); // libtorch's tracer makes no node for a read
  jit::Value *value = trace_.own_node()->addOutput()->setType(c10::NumberType::get());
  const c10::IValue &read = copy.back();
  speculate(value, read.isScalar() ? c10::IValue(read.toScalar()) : read,
            name == "aten::is_nonzero" ? "bool()" : std::string(name),
            text(trace_.frontend.here()));
  return true;
}

} // namespace tracehost::trace
