#include "program/device_flags.h"

#include "program/nodes.h"

#include <ATen/Context.h>
#include <torch/library.h>

namespace tracehost {
namespace {

constexpr std::size_t kConvolution = 9; ///< arguments of `aten::convolution`
constexpr std::size_t kNormFlag = 8;    ///< `cudnn_enabled` of batch and instance norms

bool is_on_cuda(const torch::jit::Value *value) {
  const auto type = value->type()->cast<c10::TensorType>();
  return type && type->device() && type->device()->is_cuda();
}

void drop_flags(torch::jit::Node *node) {
  auto *made = node->owningGraph()->create(c10::Symbol::fromQualString("aten::convolution"),
                                           node->inputs().slice(0, kConvolution), 1);
  made->insertBefore(node);
  made->copyMetadata(node);
  made->output()->copyMetadata(node->output());
  node->output()->replaceAllUsesWith(made->output());
  node->destroy();
}

void read_flag(torch::jit::Node *node) {
  const torch::jit::WithInsertPoint here(node);
  torch::jit::Value *flag =
      insert_op(*node->owningGraph(), "tracehost::cudnn_enabled", {}, 1)->output();
  node->replaceInput(kNormFlag, flag->setType(c10::BoolType::get()));
}

void read_flags_of(torch::jit::Node *node) {
  if (!node->kind().is_aten() || node->inputs().empty() || !is_on_cuda(node->input(0)))
    return;
  const std::string_view name = node->kind().toQualString();
  if (name == "aten::_convolution" && node->inputs().size() > kConvolution)
    drop_flags(node);
  else if (name == "aten::batch_norm" || name == "aten::instance_norm")
    read_flag(node);
}

TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  m.def("cudnn_enabled() -> bool", [] { return at::globalContext().userEnabledCuDNN(); });
}

} // namespace

void read_device_flags(torch::jit::Block *block) { each_node(block, read_flags_of); }

} // namespace tracehost
