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

std::string told(const CheckFailed &check, const std::string &place) {
  return place.empty() ? std::string(check.what()) : check.what() + (", at " + place);
}

std::string Check::told(const c10::IValue &number) const {
  if (of_kind)
    return "a number is of another type than the graph was made for";
  return "a number that the graph was made for has another value: " +
         text_of_number(number, "").value() + ", not " + text_of_number(expected, "").value();
}

namespace {

void keep(const at::Tensor &) {}

void raise_error(std::string type, const std::string &message, std::string details) {
  throw Raised(std::move(type), message, std::move(details));
}

// Conservative: never removed, moved or merged.
TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  const auto conservative = c10::AliasAnalysisKind::CONSERVATIVE;
  m.def(torch::schema("keep(Tensor t) -> ()", conservative), &keep);
  m.def(torch::schema("raise_error(str type, str message, str details) -> ()", conservative),
        &raise_error);
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

template <bool of_kind> torch::jit::Operation check(const torch::jit::Node *node) {
  return [place = place_of(*node)](torch::jit::Stack &stack) {
    const Check check{of_kind, torch::jit::pop(stack), {}};
    const c10::IValue number = torch::jit::pop(stack);
    if (!check.holds(number))
      throw FailedCheck{check.told(number), place};
  };
}

const torch::jit::RegisterOperators
    numbers({torch::jit::Operator("tracehost::py_tensor(Scalar number) -> Tensor", number_tensor,
                                  c10::AliasAnalysisKind::PURE_FUNCTION),
             torch::jit::Operator("tracehost::check_number(Scalar number, Scalar expected) -> ()",
                                  check<false>, c10::AliasAnalysisKind::CONSERVATIVE),
             torch::jit::Operator("tracehost::check_kind(Scalar number, int kind) -> ()",
                                  check<true>, c10::AliasAnalysisKind::CONSERVATIVE)});

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
  return kind_of(number) == static_cast<NumberKind>(kind.toInt());
}

bool is_check(std::string_view op) {
  return op == "tracehost::check_number" || op == "tracehost::check_kind";
}

bool communicates(std::string_view op) {
  return op.starts_with("_c10d_functional::") || op.starts_with("_c10d_functional_autograd::");
}

} // namespace tracehost
