#include "signature/grad_read.h"
#include "validate/originals.h"

#include <ATen/ops/detach.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <fmt/format.h>

/// Originals' side of backward passes: what `.grad`s were before the body, and the leaves that the
/// graph may add gradients to.

namespace tracehost::validate {
namespace {

/// Whether something of the user's runs when a gradient comes to the leaf `t`.
bool has_hooks(const at::Tensor &t) {
  namespace impl = torch::autograd::impl;
  if (!impl::get_autograd_meta(t))
    return false;
  if (!impl::hooks(t).empty() || impl::post_acc_grad_hooks(t))
    return true;
  const auto accumulator = impl::try_get_grad_accumulator(t);
  return accumulator && (!accumulator->post_hooks().empty() || !accumulator->pre_hooks().empty());
}

} // namespace

/// The pass adds to gradients where they are. Which it reaches is not known yet.
void Originals::before_backward() {
  if (!problem_.empty())
    return;
  op_began_ = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < inputs_.size() && problem_.empty(); ++i) {
    if (inputs_[i].is_leaf && inputs_[i].requires_grad)
      count(inputs_[i].tensor.nbytes());
    const at::Tensor grad = grads_[i].tensor;
    if (!grad.defined() || !problem_.empty())
      continue;
    if (grads_[i].memory >= 0)
      copy(grad, false);
    else
      give_up(fmt::format("an input has a gradient of layout {}", c10::str(grad.layout())));
  }
}

void Originals::after_backward() {
  if (problem_.empty())
    took(std::chrono::steady_clock::now() - op_began_);
}

std::string
Originals::problem_of_backward(const std::function<std::string(std::size_t)> &name) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].requires_grad)
      continue;
    if (!inputs_[i].is_leaf)
      return fmt::format("a backward pass may continue into what computed '{}' before the call",
                         name(i));
    if (has_hooks(inputs_[i].tensor))
      return fmt::format("'{}' has hooks on its gradient", name(i));
  }
  return {};
}

/// `stands`: the leaf itself, or a copy of it.
at::Tensor Originals::with_own_grad(at::Tensor stands, const Input &input, const Input &grad) {
  if (stands.is_same(input.tensor)) {
    const at::NoGradGuard no_grad;
    stands = at::detach(stands);
    if (input.requires_grad)
      stands.set_requires_grad(true);
  }
  if (grad.tensor.defined())
    stands.mutable_grad() = as_it_was(grad);
  return stands;
}

} // namespace tracehost::validate
