#include "signature/grad_read.h"

#include <algorithm>
#include <array>

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
  static constexpr std::array<const char *, 4> texts = {
      "None", "a tensor", "a tensor that requires grad",
      "a tensor of another layout, dtype or device"};
  return texts[static_cast<std::size_t>(state)];
}

std::string grad_path(std::string path) {
  if (path.starts_with("a tensor ")) // it has no path
    return "the gradient of " + path;
  const auto file = path.ends_with(')') ? path.rfind(" (") : std::string::npos;
  return path.insert(std::min(file, path.size()), ".grad");
}

} // namespace tracehost
