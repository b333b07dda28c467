#include "program/ops.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/runtime/custom_operator.h>
#include <torch/library.h>

namespace tracehost {
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

} // namespace

bool communicates(std::string_view op) {
  return op.starts_with("_c10d_functional::") || op.starts_with("_c10d_functional_autograd::");
}

} // namespace tracehost
