#include "shapes/rules.h"

#include <ATen/ATen.h>

/// Normalization and attention.

namespace tracehost::shapes {
namespace {

at::Tensor defined_or(const c10::IValue &value, const at::Tensor &otherwise) {
  return value.isTensor() && value.toTensor().defined() ? value.toTensor() : otherwise;
}

/// The dtype of statistics of `input`: that of the weights, where they have another one.
at::TensorOptions statistics(const at::Tensor &input, const c10::IValue &weight) {
  return input.options().dtype(defined_or(weight, input).scalar_type());
}

/// (input, normalized_shape, weight, bias, eps) -> (out, mean, rstd)
Values layer_norm(const Values &a) {
  const at::Tensor input = a[0].toTensor();
  const auto shape = a[1].toIntVector();
  const auto tail = static_cast<std::int64_t>(shape.size());
  TORCH_CHECK(tail >= 1 && input.dim() >= tail &&
                  input.sizes().slice(static_cast<std::size_t>(input.dim() - tail)) ==
                      c10::IntArrayRef(shape),
              "Given normalized_shape=", shape, ", expected input with shape [*, ", shape,
              "], but got input of size", input.sizes());
  for (const std::size_t i : {std::size_t{2}, std::size_t{3}})
    TORCH_CHECK(!a[i].isTensor() || !a[i].toTensor().defined() ||
                    a[i].toTensor().sizes() == c10::IntArrayRef(shape),
                "Expected weight and bias to be of same shape as normalized_shape, but got ",
                a[i].toTensor().sizes(), " and normalized_shape = ", shape);
  std::vector<std::int64_t> rest = input.sizes().vec();
  std::fill(rest.end() - tail, rest.end(), 1);
  const auto options = statistics(input, a[2]);
  return {at::empty_like(input, at::MemoryFormat::Contiguous), at::empty(rest, options),
          at::empty(rest, options)};
}

Values batch_norm(const at::Tensor &input, const c10::IValue &weight, bool training) {
  TORCH_CHECK(input.dim() >= 2, "batch_norm expects 2 dimensions or more");
  const std::int64_t features = training ? input.size(1) : 0;
  const auto options = statistics(input, weight);
  return {at::empty_like(input, input.suggest_memory_format()), at::empty({features}, options),
          at::empty({features}, options)};
}

/// (input, weight, bias, running_mean, running_var, training, momentum, eps)
Values native_batch_norm(const Values &a) {
  return batch_norm(a[0].toTensor(), a[1], a[5].toBool());
}
/// (input, weight, bias, training, momentum, eps)
Values batch_norm_without_statistics(const Values &a) {
  return batch_norm(a[0].toTensor(), a[1], a[3].toBool());
}

/// (input, weight, bias, N, C, HxW, group, eps) -> (out, mean, rstd)
Values group_norm(const Values &a) {
  const at::Tensor input = a[0].toTensor();
  const auto options = statistics(input, a[1]);
  const std::int64_t n = a[3].toInt(), groups = a[6].toInt();
  return {at::empty_like(input, input.suggest_memory_format()), at::empty({n, groups}, options),
          at::empty({n, groups}, options)};
}

/// (query, key, value, ...) -> (output, logsumexp)
Values attention(const Values &a) {
  const at::Tensor query = a[0].toTensor();
  const std::int64_t batch = query.size(0), heads = query.size(1), time = query.size(2);
  const auto sums = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {at::empty_like(query),
          at::empty({batch, time, heads}, query.options().dtype(sums)).transpose(1, 2)};
}

/// (input, grid, ...)
Values grid_sampler(const Values &a) {
  const at::Tensor input = a[0].toTensor(), grid = a[1].toTensor();
  TORCH_CHECK(input.dim() == grid.dim() && input.size(0) == grid.size(0),
              "grid_sampler(): expected grid and input to have the same batch size and rank, but "
              "got ",
              input.sizes(), " and ", grid.sizes());
  std::vector<std::int64_t> sizes{input.size(0), input.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d)
    sizes.push_back(grid.size(d));
  return {at::empty(sizes, input.options())};
}

/// (self, output_size)
Values adaptive_pool(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  const auto sizes = a[1].toIntVector();
  const auto spatial = static_cast<std::int64_t>(sizes.size());
  TORCH_CHECK(self.dim() == spatial + 1 || self.dim() == spatial + 2,
              "adaptive_avg_pool: Expected ", spatial + 1, "D or ", spatial + 2,
              "D tensor, but got ", self.sizes());
  std::vector<std::int64_t> result = self.sizes().vec();
  for (std::int64_t d = 1; d <= spatial; ++d)
    TORCH_CHECK(self.size(-d) > 0,
                "adaptive_avg_pool: Expected input to have non-zero size, but got ", self.sizes());
  std::copy(sizes.begin(), sizes.end(), result.end() - spatial);
  return {at::empty(result, self.options().memory_format(self.suggest_memory_format()))};
}

/// (grad_output, self)
Values like_second(const Values &a) {
  const at::Tensor self = a[1].toTensor();
  return {at::empty_like(self, self.suggest_memory_format())};
}

/// The gradients of (input, weight, bias), where `mask` asks for them.
Values gradients(const at::Tensor &input, const c10::IValue &weight, const c10::IValue &bias,
                 const c10::List<bool> &mask) {
  Values results(3, c10::IValue(at::Tensor()));
  if (mask.get(0))
    results[0] = at::empty_like(input, input.suggest_memory_format());
  if (mask.get(1) && weight.isTensor() && weight.toTensor().defined())
    results[1] = at::empty_like(weight.toTensor());
  if (mask.get(2) && bias.isTensor() && bias.toTensor().defined())
    results[2] = at::empty_like(bias.toTensor());
  return results;
}

/// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
Values layer_norm_backward(const Values &a) {
  return gradients(a[1].toTensor(), a[5], a[6], a[7].toBoolList());
}

/// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask)
Values batch_norm_backward(const Values &a) {
  return gradients(a[1].toTensor(), a[2], a[2], a[9].toBoolList());
}

/// (grad_out, input, mean, rstd, weight, N, C, HxW, group, mask)
Values group_norm_backward(const Values &a) {
  return gradients(a[1].toTensor(), a[4], a[4], a[9].toBoolList());
}

/// (self, upscale_factor)
Values pixel_shuffle(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  const std::int64_t factor = a[1].toInt();
  TORCH_CHECK(self.dim() >= 3 && factor > 0 && self.size(-3) % (factor * factor) == 0,
              "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
              "of upscale_factor, but got ",
              self.sizes(), " and ", factor);
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes[sizes.size() - 3] /= factor * factor;
  sizes[sizes.size() - 2] *= factor;
  sizes[sizes.size() - 1] *= factor;
  return {at::empty(sizes, self.options().memory_format(self.suggest_memory_format()))};
}

/// (self, kernel_size, stride, padding, dilation, ceil_mode)
Values max_pool(const Values &a) {
  return {std::get<0>(at::max_pool1d_with_indices(a[0].toTensor(), a[1].toIntVector(),
                                                  a[2].toIntVector(), a[3].toIntVector(),
                                                  a[4].toIntVector(), a[5].toBool()))};
}

/// (src, ...). The kernel itself would compute attention, which takes the square of the length.
Values encoder_layer(const Values &a) {
  return {at::empty_like(a[0].toTensor(), at::MemoryFormat::Contiguous)};
}

/// Only raises, by values.
Values check(const Values &) { return {}; }

} // namespace

Values attention_backward(const Values &a) {
  Values results;
  for (std::size_t i = 1; i <= 3; ++i) {
    const at::Tensor t = a[i].toTensor();
    results.emplace_back(
        at::empty({t.size(0), t.size(2), t.size(1), t.size(3)}, t.options()).transpose(1, 2));
  }
  return results;
}

const std::vector<NamedRule> kNetworkRules = {
    {"aten::_adaptive_avg_pool2d", adaptive_pool},
    {"aten::_adaptive_avg_pool3d", adaptive_pool},
    {"aten::_adaptive_avg_pool2d_backward", like_second},
    {"aten::_adaptive_avg_pool3d_backward", like_second},
    {"aten::native_layer_norm_backward", layer_norm_backward},
    {"aten::native_batch_norm_backward", batch_norm_backward},
    {"aten::native_group_norm_backward", group_norm_backward},
    {"aten::pixel_shuffle", pixel_shuffle},
    {"aten::max_pool1d", max_pool},
    {"aten::_transformer_encoder_layer_fwd", encoder_layer},
    {"aten::_linalg_check_errors", check},
    {"aten::_assert_async", check},
    {"aten::_assert_async.msg", check},
    {"aten::grid_sampler_2d", grid_sampler},
    {"aten::grid_sampler_3d", grid_sampler},
    {"aten::native_layer_norm", layer_norm},
    {"aten::native_batch_norm", native_batch_norm},
    {"aten::_native_batch_norm_legit", native_batch_norm},
    {"aten::_native_batch_norm_legit.no_stats", batch_norm_without_statistics},
    {"aten::native_group_norm", group_norm},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward},
};

} // namespace tracehost::shapes
