#include "shapes/rules.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

/// Ops that select, move or reduce elements.

namespace tracehost::shapes {
namespace {

/// (self, dim, index)
Values index_select(const Values &a) {
  const at::Tensor self = a[0].toTensor(), index = a[2].toTensor();
  const std::int64_t dimension = at::maybe_wrap_dim(a[1].toInt(), self.dim());
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  std::vector<std::int64_t> sizes = self.sizes().vec();
  if (!sizes.empty())
    sizes[static_cast<std::size_t>(dimension)] = index.numel();
  return {at::empty(sizes, self.options())};
}

/// (grad_output, indices, num_weights, ...)
Values embedding_backward(const Values &a) {
  const at::Tensor grad = a[0].toTensor();
  return {at::empty({a[2].toInt(), grad.size(-1)}, grad.options())};
}

/// The only value of a tensor's elements.
Values one(const Values &a) { return {at::empty({}, a[0].toTensor().options())}; }

} // namespace

const std::vector<NamedRule> kIndexRules = {
    {"aten::index_select", index_select},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::max", one},
    {"aten::min", one},
    {"aten::median", one},
    {"aten::nanmedian", one},
    {"aten::dot", one},
    {"aten::vdot", one},
};

} // namespace tracehost::shapes
