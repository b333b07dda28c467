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

/// (self, indices): a mask selects as many as there are true values.
Values index(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  c10::List<std::optional<at::Tensor>> indices;
  for (const c10::IValue &item : a[1].toListRef()) {
    const bool is_defined = item.isTensor() && item.toTensor().defined();
    const auto dtype = is_defined ? item.toTensor().scalar_type() : at::kLong;
    TORCH_CHECK_NOT_IMPLEMENTED(dtype != at::kBool && dtype != at::kByte,
                                "aten::index does not run without data by a mask");
    indices.push_back(is_defined ? std::optional(item.toTensor()) : std::nullopt);
  }
  return by_meta("aten::index", "Tensor", {self, indices});
}

/// (grad_output, indices, num_weights, ...)
Values embedding_backward(const Values &a) {
  const at::Tensor grad = a[0].toTensor();
  return {at::empty({a[2].toInt(), grad.size(-1)}, grad.options())};
}

/// (self, repeats)
Values repeat(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  std::vector<std::int64_t> sizes = a[1].toIntVector();
  TORCH_CHECK(static_cast<std::int64_t>(sizes.size()) >= self.dim(),
              "Number of dimensions of repeat dims can not be smaller than number of dimensions "
              "of tensor");
  for (std::size_t d = 0; d < static_cast<std::size_t>(self.dim()); ++d)
    sizes[sizes.size() - 1 - d] *= self.size(-1 - static_cast<std::int64_t>(d));
  return {at::empty(sizes, self.options())};
}

/// The only value of a tensor's elements.
Values one(const Values &a) { return {at::empty({}, a[0].toTensor().options())}; }

} // namespace

const std::vector<NamedRule> kIndexRules = {
    {"aten::index.Tensor", index},
    {"aten::index_select", index_select},
    {"aten::repeat", repeat},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::max", one},
    {"aten::min", one},
    {"aten::median", one},
    {"aten::nanmedian", one},
    {"aten::dot", one},
};

} // namespace tracehost::shapes
