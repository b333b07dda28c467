#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

/// What a trace assumed about the `.grad` of its inputs before the call (docs/rules/signature.md):
/// where the body read one, the graph is right for that state alone.
///
///     zero_grad(); backward()      w.grad: None at the first step, a tensor at the second

namespace tracehost {

enum class GradState : std::uint8_t {
  none,
  tensor,         ///< dense, of the tensor's dtype and sizes
  differentiable, ///< as well, and requires grad
  other,          ///< sparse ...: no graph takes it
};

struct GradRead {
  std::uint32_t input = 0; ///< of the graph: a slot; past the slots, a capture
  GradState state = GradState::none;
};

/// The `.grad` of `t`, without the warning for a tensor that is no leaf.
const at::Tensor &grad_of(const at::Tensor &t);
/// Hot: of the `.grad` that `t` has now.
GradState grad_state(const at::Tensor &t);
/// `None`, `a tensor`, `a tensor that requires grad`
std::string text(GradState state);
/// How the gradient of the tensor at `path` is reached: `self.w.grad`, `w.grad (train.py)`
std::string grad_path(std::string path);

} // namespace tracehost
