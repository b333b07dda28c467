#include "program/ops.h"

#include "program/numbers.h"
#include "program/places.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/library.h>

#include <bit>
#include <cstdint>

namespace tracehost {

namespace {

std::string text_of(const c10::IValue &number) {
  return number.isBool()  ? (number.toBool() ? "True" : "False")
         : number.isInt() ? std::to_string(number.toInt())
                          : c10::str(number);
}

} // namespace

std::string told(const CheckFailed &check, const std::string &place) {
  return place.empty() ? std::string(check.what()) : check.what() + (", at " + place);
}

std::string other_number(const c10::IValue &number, const c10::IValue &expected) {
  return "a number that the graph was made for has another value: " + text_of(number) + ", not " +
         text_of(expected);
}

std::string other_kind(const c10::IValue &, const c10::IValue &) {
  return "a number is of another type than the graph was made for";
}

namespace {

void keep(const at::Tensor &) {}

void raise_error(std::string type, const std::string &message) {
  throw Raised(std::move(type), message);
}

// Conservative: never removed, moved or merged.
TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  const auto conservative = c10::AliasAnalysisKind::CONSERVATIVE;
  m.def(torch::schema("keep(Tensor t) -> ()", conservative), &keep);
  m.def(torch::schema("raise_error(str type, str message) -> ()", conservative), &raise_error);
}

// An operator of the interpreter's alone, as it leaves the bool on the stack as it is.
const torch::jit::RegisterOperators number({torch::jit::Operator(
    "tracehost::number(bool truth) -> Scalar", [](torch::jit::Stack &) {},
    c10::AliasAnalysisKind::FROM_SCHEMA)});

void number_tensor(torch::jit::Stack &stack) {
  at::Tensor t = c10::scalar_to_tensor(torch::jit::pop(stack).toScalar());
  t.unsafeGetTensorImpl()->set_wrapped_number(true);
  stack.emplace_back(std::move(t));
}

/// A check: `holds` compares a number with what the graph was made for, `told` says how they
/// differ.
template <bool (*holds)(const c10::IValue &, const c10::IValue &),
          std::string (*told)(const c10::IValue &, const c10::IValue &)>
torch::jit::Operation check(const torch::jit::Node *node) {
  return [place = place_of(*node)](torch::jit::Stack &stack) {
    const c10::IValue expected = torch::jit::pop(stack), number = torch::jit::pop(stack);
    if (!holds(number, expected))
      throw FailedCheck{told(number, expected), place};
  };
}

const torch::jit::RegisterOperators numbers(
    {torch::jit::Operator("tracehost::py_tensor(Scalar number) -> Tensor", number_tensor,
                          c10::AliasAnalysisKind::PURE_FUNCTION),
     torch::jit::Operator("tracehost::check_number(Scalar number, Scalar expected) -> ()",
                          check<is_number, other_number>, c10::AliasAnalysisKind::CONSERVATIVE),
     torch::jit::Operator("tracehost::check_kind(Scalar number, int kind) -> ()",
                          check<is_of_kind, other_kind>, c10::AliasAnalysisKind::CONSERVATIVE)});

} // namespace

bool is_number(const c10::IValue &number, const c10::IValue &expected) {
  if (number.isBool())
    return expected.isBool() && number.toBool() == expected.toBool();
  if (number.isInt())
    return expected.isInt() && number.toInt() == expected.toInt();
  // To the bit, so that a nan is itself.
  return number.isDouble() && expected.isDouble() &&
         std::bit_cast<std::uint64_t>(number.toDouble()) ==
             std::bit_cast<std::uint64_t>(expected.toDouble());
}

bool is_of_kind(const c10::IValue &number, const c10::IValue &kind) {
  const auto expected = static_cast<NumberKind>(kind.toInt());
  return expected == NumberKind::boolean   ? number.isBool()
         : expected == NumberKind::integer ? number.isInt()
                                           : number.isDouble();
}

bool communicates(std::string_view op) {
  return op.starts_with("_c10d_functional::") || op.starts_with("_c10d_functional_autograd::");
}

} // namespace tracehost
