#include "tape/training.h"

#include "signature/grad_read.h"
#include "tape/guards.h"
#include "tape/ops.h"
#include "tape/recording.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

/// What has to hold for a flat list of ops to do what a training step does.

namespace tracehost::tape {
namespace {

namespace autograd = torch::autograd;

bool has_hooks(autograd::Node &node) {
  return !node.tensor_pre_hooks().empty() || !node.pre_hooks().empty() ||
         !node.post_hooks().empty() || node.tensor_post_acc_grad_hooks();
}

/// Whether Python or C++ code runs when the leaf has its gradient.
bool has_hooks(const at::Tensor &leaf) {
  const auto *meta = autograd::impl::get_autograd_meta(leaf);
  if (!meta)
    return false;
  if (!autograd::impl::hooks(leaf).empty() || autograd::impl::post_acc_grad_hooks(leaf))
    return true;
  const auto accumulator = autograd::impl::try_get_grad_accumulator(leaf);
  return accumulator && has_hooks(*accumulator);
}

std::optional<at::ScalarType> grad_dtype_of(const at::Tensor &t) {
  const auto *meta = autograd::impl::get_autograd_meta(t);
  return meta ? meta->grad_dtype(t) : std::nullopt;
}

/// A .grad that a tape can read or replace.
bool can_be_given(const at::Tensor &grad) {
  return is_plain_on_its_device(grad) && !grad.requires_grad();
}

} // namespace

Leaves::Leaves(c10::ArrayRef<c10::IValue> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].isTensor())
      continue;
    const at::Tensor &t = inputs[i].toTensor();
    if (t.requires_grad() && (!t.is_leaf() || has_hooks(t)))
      give_up("records gradients");
    const at::Tensor &grad = grad_of(t);
    if (grad.defined() && !can_be_given(grad))
      give_up("a .grad is no plain tensor");
    leaves_.push_back({i, t.requires_grad(), grad.defined(),
                       t.requires_grad() ? grad_dtype_of(t) : std::nullopt});
  }
}

bool Leaves::hold(c10::ArrayRef<c10::IValue> inputs) const {
  return records_plainly() && std::all_of(leaves_.begin(), leaves_.end(), [&](const Leaf &leaf) {
           const at::Tensor &t = inputs[leaf.input].toTensor();
           const at::Tensor &grad = grad_of(t);
           return t.requires_grad() == leaf.requires_grad && grad.defined() == leaf.has_grad &&
                  (!leaf.has_grad || can_be_given(grad)) &&
                  (!leaf.requires_grad ||
                   (t.is_leaf() && !has_hooks(t) && grad_dtype_of(t) == leaf.grad_dtype));
         });
}

AttentionChoice AttentionChoice::now() {
  at::Context &context = at::globalContext();
  return {context.userEnabledFlashSDP(), context.userEnabledMemEfficientSDP(),
          context.userEnabledMathSDP(), context.userEnabledOverrideableSDP(),
          context.sDPPriorityOrder()};
}

bool chooses_attention(const jit::Graph &graph) {
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    return std::string_view(node->kind().toQualString()) == "aten::scaled_dot_product_attention";
  });
}

bool is_autograd_op(const jit::Node &node) {
  const std::string_view name = node.kind().toQualString();
  return name == "tracehost::backward" || name == "tracehost::grad" ||
         name == "tracehost::read_grad" || name == "tracehost::set_grad" ||
         name == "tracehost::expect_no_grad";
}

bool needs_flat_graph(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs) {
  const bool may_record = c10::GradMode::is_enabled() || switches_grad(graph);
  const auto nodes = graph.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const jit::Node *node) { return is_autograd_op(*node); }) ||
         (may_record && std::any_of(inputs.begin(), inputs.end(), [](const c10::IValue &input) {
            return input.isTensor() && input.toTensor().requires_grad();
          }));
}

bool records_plainly() {
  return !at::SavedTensorDefaultHooks::get_hooks(true).has_value() &&
         !autograd::AnomalyMode::is_enabled() &&
         !at::getStepCallbacksUnlessEmpty(at::RecordScope::BACKWARD_FUNCTION);
}

} // namespace tracehost::tape
