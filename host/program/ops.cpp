#include "program/ops.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/library.h>

namespace tracehost {

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

const torch::jit::RegisterOperators
    registered_tensor({torch::jit::Operator("tracehost::py_tensor(Scalar number) -> Tensor",
                                            number_tensor, c10::AliasAnalysisKind::PURE_FUNCTION)});

} // namespace

bool communicates(std::string_view op) {
  return op.starts_with("_c10d_functional::") || op.starts_with("_c10d_functional_autograd::");
}

} // namespace tracehost
