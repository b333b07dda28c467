#include "signature/grad_read.h"

namespace tracehost {

const at::Tensor &grad_of(const at::Tensor &t) { return t.unsafeGetTensorImpl()->grad(); }

GradState grad_state(const at::Tensor &t) {
  const at::Tensor &grad = grad_of(t);
  if (!grad.defined())
    return GradState::none;
  const bool plain = grad.layout() == at::kStrided && grad.scalar_type() == t.scalar_type() &&
                     grad.sizes() == t.sizes() && grad.device() == t.device();
  return !plain                 ? GradState::other
         : grad.requires_grad() ? GradState::differentiable
                                : GradState::tensor;
}

std::string text(GradState state) {
  switch (state) {
  case GradState::none:
    return "None";
  case GradState::tensor:
    return "a tensor";
  case GradState::differentiable:
    return "a tensor that requires grad";
  case GradState::other:
    break;
  }
  return "a tensor of another layout, dtype or device";
}

} // namespace tracehost
