#include "tape/composite.h"

#include "shapes/kernels.h"
#include "tape/below.h"
#include "tape/recording.h"

#include <c10/core/GradMode.h>

namespace tracehost::tape {

bool is_composite(const jit::Node &node) {
  const auto *schema = node.maybeSchema();
  const auto op = schema ? shapes::op_of(*schema) : std::nullopt;
  return !op || op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

void with_views(jit::Stack &stack, std::size_t inputs, std::size_t outputs, bool versions,
                c10::function_ref<void(jit::Stack &)> run) {
  const auto &now = c10::impl::tls_local_dispatch_key_set();
  bool requires_grad = false;
  for (const c10::IValue &argument : jit::last(stack, inputs))
    each_tensor(argument,
                [&](const at::Tensor &t) { requires_grad |= t.defined() && t.requires_grad(); });
  if ((!versions && (!requires_grad || c10::GradMode::is_enabled())) || !is_below(now))
    return run(stack);
  {
    const c10::impl::ForceDispatchKeyGuard views(
        now.included_, now.excluded_.remove(c10::DispatchKey::ADInplaceOrView));
    run(stack);
  }
  for (std::size_t i = stack.size() - outputs; i < stack.size(); ++i)
    if (stack[i].isTensor() && stack[i].toTensor().defined() && stack[i].toTensor().is_view())
      stack[i] = stack[i].toTensor().alias();
}

} // namespace tracehost::tape
