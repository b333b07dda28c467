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

/// Of matrices, by columns, as LAPACK has them.
Values factor(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  TORCH_CHECK(self.dim() >= 2 && self.size(-1) == self.size(-2),
              "A must be batches of square matrices, but they are ", self.sizes());
  const at::Tensor made = at::empty_like(self, at::MemoryFormat::Contiguous);
  return {made.mT()};
}
Values cholesky(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  return self.numel() ? factor(a) : like_first(a);
}

/// (self, index)
Values take(const Values &a) {
  return {at::empty(a[1].toTensor().sizes(), a[0].toTensor().options())};
}

/// (grad_in, input_sizes, ...)
Values unfold_backward(const Values &a) {
  return {at::empty(a[1].toIntVector(), a[0].toTensor().options())};
}

/// (sorted_sequence, self, out_int32, ...)
Values searchsorted(const Values &a) {
  const at::Tensor self = a[1].toTensor();
  const auto dtype = a[2].toBool() ? at::kInt : at::kLong;
  return {at::empty(self.sizes(), self.options().dtype(dtype))};
}

/// (self, boundaries, out_int32, ...)
Values bucketize(const Values &a) {
  const at::Tensor boundaries = a[1].toTensor();
  TORCH_CHECK(boundaries.dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
              boundaries.dim(), ")");
  return searchsorted({a[1], a[0], a[2]});
}

at::Tensor real_of(const at::Tensor &t) {
  return t.is_complex() ? at::view_as_real(t).select(-1, 0) : t;
}

/// (self, dim, correction, keepdim)
Values variance(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  TORCH_CHECK(self.is_floating_point() || self.is_complex(),
              "std and var only support floating point and complex dtypes");
  const auto dims = a[1].isNone() ? std::vector<std::int64_t>() : a[1].toIntVector();
  return {at::sum(real_of(self), dims, a[3].toBool())};
}

Values variance_and_mean(const Values &a) {
  const auto dims = a[1].isNone() ? std::vector<std::int64_t>() : a[1].toIntVector();
  return {variance(a)[0], at::sum(a[0].toTensor(), dims, a[3].toBool())};
}

std::optional<at::ScalarType> dtype_in(const c10::IValue &value) {
  return value.isNone() ? std::nullopt : std::optional(value.toScalarType());
}

/// (self, dtype)
Values product(const Values &a) { return {at::sum(a[0].toTensor(), dtype_in(a[1]))}; }

/// (self, dim, keepdim, dtype)
Values nansum(const Values &a) {
  const auto dims = a[1].isNone() ? std::vector<std::int64_t>() : a[1].toIntVector();
  return {at::sum(a[0].toTensor(), dims, a[2].toBool(), dtype_in(a[3]))};
}

/// (self, dim)
Values count_nonzero(const Values &a) {
  return {at::sum(at::ne(a[0].toTensor(), 0), a[1].toIntVector())};
}

/// The only value of a tensor's elements.
Values one(const Values &a) { return {at::empty({}, a[0].toTensor().options())}; }

/// (self, num_classes)
Values one_hot(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  TORCH_CHECK_NOT_IMPLEMENTED(a[1].toInt() > 0,
                              "aten::one_hot does not run without data, nor a number of classes");
  TORCH_CHECK(self.scalar_type() == at::kLong,
              "one_hot is only applicable to index tensor of type LongTensor.");
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes.push_back(a[1].toInt());
  return {at::empty(sizes, self.options())};
}

Values dot(const Values &a) {
  const at::Tensor self = a[0].toTensor(), other = a[1].toTensor();
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(),
              "D and ", other.dim(), "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(),
              "dot : expected both vectors to have same dtype, but found ", self.scalar_type(),
              " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [",
              self.numel(), "] and src [", other.numel(),
              "] to have the same number of elements, but got ", self.numel(), " and ",
              other.numel(), " elements respectively");
  return one(a);
}

} // namespace

const std::vector<NamedRule> kIndexRules = {
    {"aten::index.Tensor", index},
    {"aten::index_select", index_select},
    {"aten::one_hot", one_hot},
    {"aten::flip", like_first},
    {"aten::cholesky", cholesky},
    {"aten::cholesky_inverse", factor},
    {"aten::take", take},
    {"aten::unfold_backward", unfold_backward},
    {"aten::searchsorted.Tensor", searchsorted},
    {"aten::bucketize.Tensor", bucketize},
    {"aten::var.correction", variance},
    {"aten::std.correction", variance},
    {"aten::var_mean.correction", variance_and_mean},
    {"aten::std_mean.correction", variance_and_mean},
    {"aten::prod", product},
    {"aten::nansum", nansum},
    {"aten::count_nonzero.dim_IntList", count_nonzero},
    {"aten::repeat", repeat},
    {"aten::embedding_dense_backward", embedding_backward},
    {"aten::max", one},
    {"aten::min", one},
    {"aten::median", one},
    {"aten::nanmedian", one},
    {"aten::dot", dot},
};

} // namespace tracehost::shapes
