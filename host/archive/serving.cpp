#include "archive/archive.h"

#include <fmt/format.h>

#include <algorithm>

/// Which Specialization of an archive serves a call.

namespace tracehost::archive {
namespace {

/// What of a tensor's keys decides which kernels run.
c10::DispatchKeySet kind(c10::DispatchKeySet keys) {
  return keys - c10::autograd_dispatch_keyset_with_ADInplaceOrView -
         c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});
}

/// Whether a graph made for `meta` is right for `t`: all but requires_grad and inference mode,
/// which ops find out by themselves.
bool fits(const TensorMeta &meta, const at::Tensor &t, const Signature &signature) {
  const bool strides = !signature.reads_strides || t.layout() != at::kStrided ||
                       t.strides() == c10::IntArrayRef(meta.strides) ||
                       (meta.relaxed && meta.contiguous && t.is_contiguous());
  const bool leaf = !signature.reads_leaf || t.is_leaf() == meta.is_leaf;
  return t.scalar_type() == meta.dtype && t.device() == meta.device &&
         kind(t.key_set()) == kind(meta.keys) && meta.takes(t.sizes()) && strides && leaf;
}

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

const at::Tensor &input(const Specialization &s, c10::ArrayRef<at::Tensor> tensors,
                        std::uint32_t index) {
  return index < tensors.size() ? tensors[index] : state(s).captures[index - tensors.size()];
}

/// The modes that a call may not have otherwise than the trace.
Context expected(const Specialization &s, const Context &now) {
  Context result = s.signature.context;
  result.included = now.included;
  result.excluded = now.excluded;
  result.default_device = now.default_device; // graphs name their devices
  result.deterministic = now.deterministic;
  if (!state(s).sets_modes) {
    result.grad = now.grad;
    result.inference = now.inference;
  }
  if (result.autocast()) { // its casts are in the graph
    result.autocast_cpu = now.autocast_cpu;
    result.autocast_cuda = now.autocast_cuda;
  }
  return result;
}

bool serves(const Specialization &s, const Signature &request, c10::ArrayRef<at::Tensor> tensors) {
  const Signature &signature = s.signature;
  if (!same_tree(signature, request) || expected(s, request.context) != request.context)
    return false;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!fits(signature.slots[i], tensors[i], signature))
      return false;
  const Sizes sizes(tensors);
  return std::all_of(signature.conditions.begin(), signature.conditions.end(),
                     [&](const SizeCondition &condition) { return holds(condition, sizes); }) &&
         std::all_of(
             signature.values.begin(), signature.values.end(),
             [&](const ValueGuard &guard) { return holds(guard, input(s, tensors, guard.input)); });
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

/// The request as it looks from `s`: without what may differ.
Signature seen_from(const Specialization &s, const Signature &request,
                    c10::ArrayRef<at::Tensor> tensors) {
  Signature result = request;
  result.context = expected(s, request.context);
  result.context.default_dtype = request.context.default_dtype;
  result.context.autocast_cpu = request.context.autocast_cpu;
  result.context.autocast_cuda = request.context.autocast_cuda;
  if (state(s).sets_modes) {
    result.context.grad = request.context.grad;
    result.context.inference = request.context.inference;
  }
  Signature const &own = s.signature;
  for (std::size_t i = 0; i < result.slots.size(); ++i) {
    TensorMeta &meta = result.slots[i];
    meta.type = nullptr;
    meta.type_name = "Tensor";
    if (i >= own.slots.size())
      continue;
    meta.requires_grad = own.slots[i].requires_grad;
    if (kind(meta.keys) == kind(own.slots[i].keys))
      meta.keys = own.slots[i].keys;
  }
  for (const ValueGuard &guard : own.values)
    if (guard.input < tensors.size() && can_be_guarded(tensors[guard.input]))
      result.values.push_back(guard_of(guard.input, tensors[guard.input]));
  return result;
}

} // namespace

SpecializationRef serving(const Entry &entry, const Signature &request,
                          c10::ArrayRef<at::Tensor> tensors, Nearest *why) {
  SpecializationRef found;
  for (const SpecializationRef &s : entry.specializations)
    if (serves(*s, request, tensors)) {
      if (is_exact(*s, request, tensors))
        return s;
      if (!found)
        found = s;
    }
  if (found || !why)
    return found;
  for (std::size_t i = 0; i < entry.specializations.size(); ++i) {
    const Specialization &s = *entry.specializations[i];
    Signature own = s.signature; // of its context only what a call may not have otherwise
    const Signature seen = seen_from(s, request, tensors);
    own.context.included = seen.context.included;
    own.context.excluded = seen.context.excluded;
    own.context = expected(s, seen.context);
    why->consider(i, own, seen);
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
