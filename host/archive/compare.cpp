#include "archive/compare.h"

#include "archive/archive.h"

#include <utility>

namespace tracehost::archive {

Context as_compared(const Specialization &specialization, const Context &now, bool inference) {
  const Context &made = specialization.signature.context;
  Context result = now;
  result.included = made.included;
  result.excluded = made.excluded;
  result.default_device = made.default_device; // graphs name their devices
  // A graph that switches grad mode ends in that of the trace: what follows it must not notice.
  if (!state(specialization).sets_modes || inference) {
    result.grad = made.grad;
    result.inference = made.inference;
  }
  if (made.autocast()) { // its casts are in the graph
    result.autocast_cpu = made.autocast_cpu;
    result.autocast_cuda = made.autocast_cuda;
  }
  return result;
}

Signature seen_from(const Specialization &specialization, Signature request,
                    c10::ArrayRef<at::Tensor> tensors, bool inference) {
  const Signature &own = specialization.signature;
  request.context = as_compared(specialization, request.context, inference);
  for (std::size_t i = 0; i < request.slots.size(); ++i) {
    TensorMeta &meta = request.slots[i];
    meta.type = nullptr;
    meta.type_name = "Tensor";
    if (i >= own.slots.size())
      continue;
    meta.requires_grad = own.slots[i].requires_grad;
    if (same_kernels(meta.keys, own.slots[i].keys))
      meta.keys = own.slots[i].keys;
  }
  if (tensors.size() != own.slots.size())
    return request;
  const auto input = [&](std::uint32_t index) -> const at::Tensor & {
    return index < tensors.size() ? tensors[index]
                                  : state(specialization).captures[index - tensors.size()];
  };
  for (const GradRead &read : own.grads)
    request.grads.push_back({read.input, grad_state(input(read.input))});
  return request;
}

} // namespace tracehost::archive
