#include "program/ops.h"

#include <ATen/core/Tensor.h>
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

} // namespace
} // namespace tracehost
