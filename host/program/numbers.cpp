#include "program/numbers.h"

#include "program/number_families.h"
#include "program/ops.h"

#include <c10/util/Exception.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace tracehost {
namespace numbers {

void raise_value_error(const char *text) { throw Raised("builtins:ValueError", text); }
void raise_type_error(const std::string &text) { throw Raised("builtins:TypeError", text); }
void raise_overflow(const char *text) { throw Raised("builtins:OverflowError", text); }
void raise_zero_division(const char *text) { throw Raised("builtins:ZeroDivisionError", text); }
void raise_no_integer() { raise_type_error("'float' object cannot be interpreted as an integer"); }

void leave_int64(const NumberOp &op, const Number *arguments) {
  leave(op, arguments, "an int past 64 bits");
}

Number integer_of(const NumberOp &op, const Number *arguments, double whole) {
  if (whole >= -0x1p63 && whole < 0x1p63) [[likely]]
    return Number::of(static_cast<std::int64_t>(whole));
  if (std::isnan(whole))
    raise_value_error("cannot convert float NaN to integer");
  if (std::isinf(whole))
    raise_overflow("cannot convert float infinity to integer");
  leave_int64(op, arguments);
}

namespace {

Number number_of(const c10::IValue &value) {
  if (value.isInt())
    return Number::of(value.toInt());
  if (value.isDouble())
    return Number::of(value.toDouble());
  if (value.isUnsigned())
    throw LeavesNumbers(
        fmt::format("{} is an int past 63 bits, which a graph's number can't be", value.toUInt()));
  TORCH_CHECK_TYPE(value.isBool(), "an op on numbers takes ints, floats and bools, not ",
                   value.tagKind());
  return Number::of(value.toBool());
}

c10::IValue value_of(const Number &number) {
  switch (number.kind) {
  case NumberKind::boolean:
    return {number.integer != 0};
  case NumberKind::integer:
    return {number.integer};
  case NumberKind::real:
    break;
  }
  return {number.real};
}

std::string text_of(const Number &number) { return text_of_number(value_of(number), "").value(); }

/// Hot. The arity is known when the op is registered.
template <std::size_t arity> void apply_to_stack(const NumberOp &op, torch::jit::Stack &stack) {
  const c10::IValue *operands = stack.data() + (stack.size() - arity);
  Number arguments[arity];
  for (std::size_t i = 0; i < arity; ++i)
    arguments[i] = number_of(operands[i]);
  const Number result = op.evaluate(op, arguments);
  if constexpr (arity == 2)
    stack.pop_back();
  stack.back() = value_of(result);
}

torch::jit::Operation operation(const NumberOp &op) {
  if (op.arity == 2)
    return [&op](torch::jit::Stack &stack) { apply_to_stack<2>(op, stack); };
  return [&op](torch::jit::Stack &stack) { apply_to_stack<1>(op, stack); };
}

void apply_raises(torch::jit::Stack &stack) {
  const Number arguments[2] = {number_of(stack[stack.size() - 2]), number_of(stack.back())};
  const NumberOp *op = find_number_op(stack[stack.size() - 3].toStringView());
  TORCH_CHECK(op, "no such op of numbers");
  bool raises = false;
  try {
    op->evaluate(*op, arguments);
  } catch (const Raised &) {
    raises = true;
  } catch (const LeavesNumbers &) { // Python has a result
  }
  stack.resize(stack.size() - 3);
  stack.emplace_back(raises);
}

torch::jit::RegisterOperators register_all() {
  std::vector<std::optional<torch::jit::Operator>> operators;
  operators.emplace_back(std::in_place,
                         std::string(kRaisesOp) + "(str op, Scalar a, Scalar b) -> Scalar",
                         &apply_raises, c10::AliasAnalysisKind::PURE_FUNCTION);
  for (const NumberOp *op : number_ops()) {
    const auto schema = fmt::format("tracehost::py_{}({}) -> Scalar", op->name,
                                    op->arity == 2 ? "Scalar a, Scalar b" : "Scalar a");
    // Conservative: never removed or merged. What raises in Python raises in the graph.
    const auto aliases =
        op->raises ? c10::AliasAnalysisKind::CONSERVATIVE : c10::AliasAnalysisKind::PURE_FUNCTION;
    operators.emplace_back(std::in_place, schema, operation(*op), aliases);
  }
  return torch::jit::RegisterOperators(std::move(operators));
}

const torch::jit::RegisterOperators registered = register_all();

} // namespace

void leave(const NumberOp &op, const Number *arguments, const char *what) {
  std::string text = fmt::format("{}({}", op.name, text_of(arguments[0]));
  if (op.arity == 2)
    text += ", " + text_of(arguments[1]);
  throw LeavesNumbers(text + ") is " + what + ", which a graph's number can't be");
}

} // namespace numbers

const std::vector<const NumberOp *> &number_ops() {
  static const std::vector<const NumberOp *> all = [] {
    std::vector<const NumberOp *> joined;
    for (const auto family : {numbers::arithmetic(), numbers::integral(), numbers::comparing(),
                              numbers::rounding(), numbers::analysis()})
      for (const NumberOp &op : family)
        joined.push_back(&op);
    return joined;
  }();
  return all;
}

const NumberOp *find_number_op(std::string_view name) {
  const auto &all = number_ops();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const NumberOp *op) { return op->name == name; });
  return found == all.end() ? nullptr : *found;
}

bool is_number_op(std::string_view kind) {
  constexpr std::string_view prefix = "tracehost::py_";
  if (!kind.starts_with(prefix))
    return false;
  const std::string_view name = kind.substr(prefix.size());
  return name == "tensor" || name == "kind" || kind == kRaisesOp || find_number_op(name);
}

c10::IValue apply_number_op(const NumberOp &op, c10::ArrayRef<c10::IValue> arguments) {
  TORCH_CHECK_TYPE(arguments.size() == op.arity, op.name, " takes ", op.arity, " numbers, not ",
                   arguments.size());
  Number read[2];
  for (std::size_t i = 0; i < arguments.size(); ++i)
    read[i] = numbers::number_of(arguments[i]);
  return numbers::value_of(op.evaluate(op, read));
}

std::optional<NumberKind> kind_of_result(const NumberOp &op, c10::ArrayRef<NumberKind> operands) {
  TORCH_CHECK_TYPE(operands.size() == op.arity, op.name, " takes ", op.arity, " numbers, not ",
                   operands.size());
  return op.kind(operands.data());
}

} // namespace tracehost
