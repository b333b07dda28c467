#include "trace/reshapes.h"

#include <algorithm>

namespace tracehost::trace {

namespace {

std::vector<std::int64_t> strides_of(const at::Tensor &t) {
  return t.layout() == at::kStrided ? t.strides().vec() : std::vector<std::int64_t>();
}

} // namespace

void Reshapes::before_write(const torch::jit::Block *block, const torch::jit::Block *home,
                            const at::Tensor &t) {
  if (home == block)
    return;
  const bool known = std::any_of(written_.begin(), written_.end(), [&](const Written &w) {
    return w.block == block && w.tensor.lock().get() == t.unsafeGetTensorImpl();
  });
  if (!known)
    written_.push_back({block, home, Weak(t.getIntrusivePtr()), t.sizes().vec(), strides_of(t)});
}

bool Reshapes::any(const torch::jit::Block *block) const {
  return std::any_of(written_.begin(), written_.end(), [&](const Written &w) {
    if (w.block != block || w.tensor.expired())
      return false;
    const at::Tensor now(w.tensor.lock());
    return now.sizes() != w.sizes || strides_of(now) != w.strides;
  });
}

void Reshapes::close(const torch::jit::Block *block) {
  std::erase_if(written_, [&](const Written &w) { return w.block == block; });
}

void Reshapes::open(const torch::jit::Block *block, const torch::jit::Block *around) {
  std::erase_if(written_, [&](Written &w) {
    if (w.block == block)
      w.block = around;
    return w.block == w.home || !around->owningNode();
  });
}

} // namespace tracehost::trace
