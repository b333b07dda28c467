#include "archive/archive.h"
#include "archive/compare.h"

#include <fmt/format.h>

#include <algorithm>

/// Which Specialization of an archive serves a call.

namespace tracehost::archive {
namespace {

class Sizes final : public SizeSource {
public:
  explicit Sizes(c10::ArrayRef<at::Tensor> tensors) : tensors_(tensors) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    return tensors_[static_cast<std::size_t>(slot)].size(dimension);
  }

private:
  c10::ArrayRef<at::Tensor> tensors_;
};

bool same_tree(const Signature &a, const Signature &b) {
  return a.nodes.size() == b.nodes.size() && a.slots.size() == b.slots.size() &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(),
                    [](const Node &x, const Node &y) { return same(x, y); });
}

/// The slots, then the captures.
auto inputs_of(const Specialization &s, c10::ArrayRef<at::Tensor> tensors) {
  return [tensors, &captures = state(s).captures](std::uint32_t index) -> const at::Tensor & {
    return index < tensors.size() ? tensors[index] : captures[index - tensors.size()];
  };
}

bool serves(const Specialization &s, const Signature &request, c10::ArrayRef<at::Tensor> tensors) {
  const Signature &signature = s.signature;
  if (!same_tree(signature, request) || as_compared(s, request.context) != signature.context)
    return false;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!fits(signature.slots[i], tensors[i]))
      return false;
  const Sizes sizes(tensors);
  return std::all_of(signature.conditions.begin(), signature.conditions.end(),
                     [&](const SizeCondition &condition) { return holds(condition, sizes); }) &&
         reads_hold(signature, inputs_of(s, tensors));
}

/// Whether it was traced with tensors that require grad as these, in this grad mode.
bool is_exact(const Specialization &s, const Signature &request,
              c10::ArrayRef<at::Tensor> tensors) {
  if (s.signature.context.grad != request.context.grad)
    return false;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (s.signature.slots[i].requires_grad != tensors[i].requires_grad())
      return false;
  return true;
}

} // namespace

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
  const auto input = inputs_of(specialization, tensors);
  for (const ValueGuard &guard : own.values)
    if (can_be_guarded(input(guard.input)))
      request.values.push_back(guard_of(guard.input, input(guard.input)));
  for (const GradRead &read : own.grads)
    request.grads.push_back({read.input, grad_state(input(read.input))});
  return request;
}

SpecializationRef serving(const Entry &entry, const Signature &request,
                          c10::ArrayRef<at::Tensor> tensors, Nearest *why,
                          const std::vector<SpecializationRef> &failed) {
  SpecializationRef found;
  for (const SpecializationRef &s : entry.specializations)
    if (std::find(failed.begin(), failed.end(), s) == failed.end() &&
        serves(*s, request, tensors)) {
      if (is_exact(*s, request, tensors))
        return s;
      if (!found)
        found = s;
    }
  if (found || !why)
    return found;
  for (std::size_t i = 0; i < entry.specializations.size(); ++i) {
    const Specialization &s = *entry.specializations[i];
    why->consider(i, s.signature, seen_from(s, request, tensors));
  }
  return nullptr;
}

std::string refusal(const Entry &entry, const Signature &request, const Nearest &nearest) {
  if (nearest.index >= entry.specializations.size())
    return fmt::format("{} has no graph: the archive has none for it", entry.name);
  Signature shown = request; // tensors as the archive knows them
  for (TensorMeta &meta : shown.slots) {
    meta.type_name = "Tensor";
    meta.requires_grad = false;
  }
  std::string result = fmt::format("{} has no graph for {}", entry.name, text(shown));
  const std::size_t count = entry.specializations.size();
  result += fmt::format("\n  {}  {}", count == 1 ? "the one" : "nearest",
                        text(entry.specializations[nearest.index]->signature));
  for (const Difference &d : nearest.differences) {
    std::string subject = d.path.empty() ? "sizes" : d.path;
    if (d.dimension >= 0)
      subject += fmt::format(", dimension {}", d.dimension);
    result += fmt::format("\n  {}: expected {}, got {}", subject, d.before, d.after);
  }
  return result;
}

torch::jit::Stack inputs(const Specialization &specialization, c10::ArrayRef<at::Tensor> tensors) {
  torch::jit::Stack stack;
  const auto &captures = state(specialization).captures;
  stack.reserve(tensors.size() + captures.size());
  for (const at::Tensor &t : tensors)
    stack.emplace_back(t);
  for (const at::Tensor &t : captures)
    stack.emplace_back(t);
  return stack;
}

} // namespace tracehost::archive
