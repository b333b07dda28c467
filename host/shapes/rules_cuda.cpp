#include "shapes/rules.h"

#include <ATen/ATen.h>

/// Ops that only CUDA has. Source of the sizes: torch/_meta_registrations.py, which a test compares
/// them with where there is no GPU.

namespace tracehost::shapes {
namespace {

/// As eager's attention makes its result: the dimensions lie in memory in the order that the query
/// has them.
at::Tensor in_order_of(const at::Tensor &query, const std::vector<std::int64_t> &sizes) {
  if (query.sizes() == c10::IntArrayRef(sizes))
    return at::empty_like(query);
  std::vector<std::int64_t> order(sizes.size()), strides(sizes.size());
  for (std::size_t d = 0; d < order.size(); ++d)
    order[d] = static_cast<std::int64_t>(d);
  const auto rank = [&](std::int64_t d) {
    return query.stride(d) ? query.stride(d) : std::numeric_limits<std::int64_t>::max();
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return rank(a) < rank(b); });
  std::int64_t step = 1;
  for (const std::int64_t d : order) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= sizes[static_cast<std::size_t>(d)];
  }
  return at::empty_strided(sizes, strides, query.options());
}

at::Tensor number(const at::Tensor &like) { return at::empty({}, like.options().dtype(at::kLong)); }

std::vector<std::int64_t> result_sizes(const at::Tensor &query, const at::Tensor &value) {
  return {query.size(0), query.size(1), query.size(2), value.size(3)};
}

/// Of (query, key, value, ...); `sums` and `mask`: the results that differ.
Values attention_of(const Values &a, const std::vector<std::int64_t> &sums,
                    const at::Tensor &mask) {
  const at::Tensor query = a[0].toTensor(), key = a[1].toTensor(), value = a[2].toTensor();
  return {in_order_of(query, result_sizes(query, value)),
          at::empty(sums, query.options().dtype(at::kFloat)),
          at::Tensor(),
          at::Tensor(),
          query.size(2),
          key.size(2),
          number(query),
          number(query),
          mask};
}

/// (query, key, value, dropout_p, is_causal, return_debug_mask, scale)
Values flash_attention(const Values &a) {
  const at::Tensor query = a[0].toTensor();
  return attention_of(a, {query.size(0), query.size(1), query.size(2)},
                      at::empty({0}, query.options()));
}

/// (query, key, value, attn_bias, compute_log_sumexp, ...)
Values cudnn_attention(const Values &a) {
  const at::Tensor query = a[0].toTensor();
  return attention_of(a, {query.size(0), query.size(1), query.size(2), 1}, at::Tensor());
}

/// (query, key, value, attn_bias, compute_log_sumexp, ...)
Values efficient_attention(const Values &a) {
  const at::Tensor query = a[0].toTensor(), value = a[2].toTensor();
  const std::int64_t sums = a[4].toBool() ? (query.size(2) + 31) / 32 * 32 : 0;
  return {at::empty({query.size(0), query.size(2), query.size(1), value.size(3)}, query.options())
              .transpose(1, 2),
          at::empty({query.size(0), query.size(1), sums}, query.options().dtype(at::kFloat)),
          number(query), number(query)};
}

/// (grad_out, query, key, value, ...)
Values attention_gradients(const Values &a) {
  return {at::empty_like(a[1].toTensor()), at::empty_like(a[2].toTensor()),
          at::empty_like(a[3].toTensor())};
}

/// (grad_out, query, key, value, attn_bias, out, logsumexp, seed, offset, dropout_p, mask[4], ...)
Values efficient_gradients(const Values &a) {
  Values results = attention_backward(a);
  const at::Tensor bias = a[4].toTensor();
  results.emplace_back(bias.defined() && a[10].toBoolList().get(3) ? at::empty_like(bias)
                                                                   : at::Tensor());
  return results;
}

/// (input, p, train)
Values dropout(const Values &a) {
  const at::Tensor input = a[0].toTensor();
  return {at::empty_like(input), at::empty_like(input, input.options().dtype(at::kBool))};
}

/// (input, weight, bias, running_mean, running_var, training, ...)
Values batch_norm(const Values &a) {
  const at::Tensor input = a[0].toTensor(), weight = a[1].toTensor();
  const std::int64_t features = a[5].toBool() ? input.size(1) : 0;
  return {at::empty_like(input, input.suggest_memory_format()),
          at::empty({features}, weight.options()), at::empty({features}, weight.options()),
          at::empty({0}, input.options().dtype(at::kByte))};
}

/// (input, grad_output, weight, ...)
Values batch_norm_gradients(const Values &a) {
  const at::Tensor input = a[0].toTensor(), weight = a[2].toTensor();
  return {at::empty_like(input, input.suggest_memory_format()), at::empty_like(weight),
          at::empty_like(weight)};
}

/// (input, weight, weight_stride0, weight_buf, hx, cx, mode, hidden_size, proj_size, num_layers,
/// batch_first, dropout, train, bidirectional, batch_sizes, dropout_state)
Values recurrent(const Values &a) {
  const at::Tensor input = a[0].toTensor(), hx = a[4].toTensor();
  const at::Tensor cx = a[5].isTensor() ? a[5].toTensor() : at::Tensor();
  const std::int64_t hidden = a[7].toInt(), projected = a[8].toInt();
  const std::int64_t features = projected ? projected : hidden, both = a[13].toBool() ? 2 : 1;
  const auto packed = a[14].toIntVector();
  std::vector<std::int64_t> sizes = input.sizes().vec();
  sizes.back() = features * both;
  const std::int64_t batch = !packed.empty() ? packed[0] : input.size(a[10].toBool() ? 0 : 1);
  const std::int64_t layers = a[9].toInt() * both;
  return {at::empty(sizes, input.options()), at::empty({layers, batch, features}, hx.options()),
          cx.defined() ? at::empty({layers, batch, hidden}, cx.options())
                       : at::empty({0}, input.options()),
          at::empty({0}, input.options().dtype(at::kByte)),
          a[3].isTensor() ? a[3] : c10::IValue(at::Tensor())};
}

/// (input_gates, hidden_gates, cx, ...)
Values lstm_cell(const Values &a) {
  const at::Tensor gates = a[0].toTensor(), cx = a[2].toTensor();
  const auto format = at::MemoryFormat::Contiguous;
  return {at::empty_like(cx, format), at::empty_like(cx, format), at::empty_like(gates, format)};
}

} // namespace

const std::vector<NamedRule> kCudaRules = {
    {"aten::_scaled_dot_product_flash_attention", flash_attention},
    {"aten::_scaled_dot_product_flash_attention_backward", attention_gradients},
    {"aten::_scaled_dot_product_cudnn_attention", cudnn_attention},
    {"aten::_scaled_dot_product_cudnn_attention_backward", attention_gradients},
    {"aten::_scaled_dot_product_efficient_attention", efficient_attention},
    {"aten::_scaled_dot_product_efficient_attention_backward", efficient_gradients},
    {"aten::native_dropout", dropout},
    {"aten::cudnn_batch_norm", batch_norm},
    {"aten::cudnn_batch_norm_backward", batch_norm_gradients},
    {"aten::_cudnn_rnn", recurrent},
    {"aten::_thnn_fused_lstm_cell", lstm_cell},
};

} // namespace tracehost::shapes
