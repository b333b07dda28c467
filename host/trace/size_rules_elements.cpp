#include "trace/size_rules.h"

#include <algorithm>

/// Elementwise ops that torch does not tag as such, ops that keep the sizes of their first tensor,
/// reductions, and ops that make tensors.

namespace tracehost::trace {

namespace {

Parts sizes_of_first_twice(const SizeCall &call) { return {call.first(), call.first()}; }

/// Of a single number, where the op reduces; as without otherwise (`reduction` is 0).
Parts loss_sizes(const SizeCall &call) {
  if (call.constant("reduction") != 0)
    return {Dims{}};
  return sizes_broadcast(call);
}

/// Classes are a dimension of the input that the target lacks.
Parts loss_of_classes_sizes(const SizeCall &call) {
  if (call.constant("reduction") != 0)
    return {Dims{}};
  const Dims &input = call.dims("self"), &target = call.dims("target");
  if (input.size() != target.size())
    return {target};
  Dims result = input; // the target has probabilities
  if (result.empty())
    throw NoRule();
  result.erase(result.begin() + (result.size() > 1 ? 1 : 0));
  return {result};
}

/// A pointwise op of a distance that reduces the last dimension.
Parts distance_sizes(const SizeCall &call) {
  Dims result = call.broadcast(call.dims("x1"), call.dims("x2"));
  const std::size_t d = call.has("dim") ? call.dimension("dim", result.size()) : result.size() - 1;
  if (call.flag("keepdim"))
    result.at(d) = 1;
  else
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(d));
  return {result};
}

Parts reduced_sizes(const SizeCall &call) {
  if (call.is_tensor("other")) // max, min of two
    return sizes_broadcast(call);
  Dims result = call.first();
  std::vector<std::size_t> gone;
  if (call.has("dim") && call.is_list("dim"))
    gone = call.dimensions("dim", result.size());
  else if (call.has("dim"))
    gone = {call.dimension("dim", result.size())};
  if (gone.empty())
    for (std::size_t d = 0; d < result.size(); ++d)
      gone.push_back(d);
  std::sort(gone.rbegin(), gone.rend());
  for (const std::size_t d : gone) {
    if (result.empty())
      break;
    if (call.flag("keepdim"))
      result[d] = 1;
    else
      result.erase(result.begin() + static_cast<std::ptrdiff_t>(d));
  }
  return {result, result};
}

/// `arange` of ints. A float's rounding is no algebra.
Parts arange_sizes(const SizeCall &call) {
  const Size end = call.number("end");
  const Size start = call.has("start") ? call.number("start") : Size(0);
  const std::int64_t step = call.has("step") ? call.constant("step") : 1;
  if (step == 0)
    throw NoRule();
  const Size length = step > 0 ? ceil_divide(end - start, step) : ceil_divide(start - end, -step);
  return {Dims{larger(length, 0)}};
}

Parts steps_sizes(const SizeCall &call) { return {Dims{call.number("steps")}}; }

Parts window_function_sizes(const SizeCall &call) { return {Dims{call.number("window_length")}}; }

Parts permutation_sizes(const SizeCall &call) { return {Dims{call.number("n")}}; }

Parts eye_sizes(const SizeCall &call) {
  return {Dims{call.number("n"), call.has("m") ? call.number("m") : call.number("n")}};
}

/// With a condition alone it gives the places where that holds.
Parts where_sizes(const SizeCall &call) {
  if (!call.has("self"))
    throw NoRule();
  return sizes_broadcast(call);
}

/// The boundaries come behind, or in front.
Parts searched_sizes(const SizeCall &call) {
  return {call.is_tensor("self") ? call.dims("self") : Dims{}};
}

/// As `normal(mean, std)` and `normal(mean, std, size)`.
Parts normal_sizes(const SizeCall &call) {
  return call.has("size") ? sizes_given(call) : sizes_broadcast(call);
}

Parts samples_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  result.at(result.size() - 1) = call.number("num_samples");
  return {result};
}

} // namespace

const std::vector<NamedSizeRule> kElementSizes = {
    // Elementwise ops that torch does not tag.
    {"multiply divide subtract floor_divide true_divide __and__ __or__ __xor__ __lshift__ "
     "__rshift__ less less_equal greater greater_equal not_equal isclose rsub masked_fill "
     "arctan2 complex polar xlogy special_xlogy masked_scatter cross linalg_cross binomial",
     sizes_broadcast},
    {"where", where_sizes},
    {"bernoulli poisson rand_like randn_like randint_like zeros_like ones_like full_like "
     "empty_like",
     sizes_of_first},
    {"normal", normal_sizes},
    // Ops that keep the sizes of their first tensor.
    {"abs absolute arccos arccosh arcsin arcsinh arctan arctanh negative fix conj _conj "
     "resolve_conj resolve_neg real imag isreal hardswish log_sigmoid prelu special_erf "
     "special_erfc special_expit special_expm1 special_exp2 special_log1p special_gammaln "
     "special_digamma special_sinc special_ndtr special_logit special_round special_i0 "
     "clone contiguous detach alias to _to_copy cpu cuda type_as pin_memory lift "
     "lift_fresh lift_fresh_copy _autocast_to_reduced_precision "
     "_autocast_to_full_precision dropout alpha_dropout feature_dropout "
     "feature_alpha_dropout softmax _softmax _safe_softmax special_softmax log_softmax "
     "_log_softmax special_log_softmax cumsum cumprod logcumsumexp argsort msort flip "
     "fliplr flipud roll tril triu renorm fill zero copy index_fill index_copy index_add "
     "index_reduce index_put _index_put_impl _unsafe_index_put put scatter scatter_add "
     "scatter_reduce slice_scatter select_scatter diagonal_scatter as_strided_scatter isin "
     "channel_shuffle native_channel_shuffle fft_fftshift fft_ifftshift inverse linalg_inv "
     "cholesky linalg_cholesky matrix_exp linalg_matrix_exp linalg_matrix_power "
     "matrix_power fake_quantize_per_tensor_affine fake_quantize_per_channel_affine",
     sizes_of_first},
    {"native_dropout cummax cummin sort", sizes_of_first_twice},
    {"bucketize searchsorted", searched_sizes},
    {"multinomial", samples_sizes},
};

const std::vector<NamedSizeRule> kReductionSizes = {
    {"sum nansum mean nanmean prod amax amin aminmax max min argmax argmin all any std var "
     "std_mean var_mean norm linalg_vector_norm linalg_norm frobenius_norm logsumexp "
     "special_logsumexp median nanmedian mode kthvalue count_nonzero",
     reduced_sizes},
    {"cosine_similarity pairwise_distance", distance_sizes},
    {"mse_loss l1_loss smooth_l1_loss huber_loss kl_div soft_margin_loss "
     "binary_cross_entropy binary_cross_entropy_with_logits poisson_nll_loss "
     "hinge_embedding_loss margin_ranking_loss",
     loss_sizes},
    {"cross_entropy_loss nll_loss nll_loss_nd nll_loss2d", loss_of_classes_sizes},
};

const std::vector<NamedSizeRule> kFactorySizes = {
    {"zeros ones full empty empty_permuted empty_strided rand randn randint new_zeros "
     "new_ones new_full new_empty new_empty_strided",
     sizes_given},
    {"arange", arange_sizes},
    {"linspace logspace", steps_sizes},
    {"hann_window hamming_window bartlett_window blackman_window kaiser_window",
     window_function_sizes},
    {"randperm", permutation_sizes},
    {"eye", eye_sizes},
    {"scalar_tensor", sizes_of_number},
};

} // namespace tracehost::trace
