#include "trace/size_rules.h"

#include <algorithm>

/// Elementwise ops that torch does not tag as such, ops that keep the sizes of their first tensor,
/// reductions, and ops that make tensors.

namespace tracehost::trace {

namespace {

Parts sizes_of_first(const SizeCall &call) { return {call.first()}; }

Parts sizes_of_first_twice(const SizeCall &call) { return {call.first(), call.first()}; }

Parts sizes_broadcast(const SizeCall &call) {
  Dims result;
  for (const Dims &dims : call.all())
    result = call.broadcast(result, dims);
  return {result};
}

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

Parts filled_sizes(const SizeCall &call) { return {call.numbers("size")}; }

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

Parts number_sizes(const SizeCall &) { return {Dims{}}; }

/// As `normal(mean, std)` and `normal(mean, std, size)`.
Parts normal_sizes(const SizeCall &call) {
  return call.has("size") ? filled_sizes(call) : sizes_broadcast(call);
}

Parts samples_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  result.at(result.size() - 1) = call.number("num_samples");
  return {result};
}

} // namespace

const std::vector<NamedSizeRule> kElementSizes = {
    // Elementwise ops that torch does not tag.
    {"multiply", sizes_broadcast},
    {"divide", sizes_broadcast},
    {"subtract", sizes_broadcast},
    {"floor_divide", sizes_broadcast},
    {"true_divide", sizes_broadcast},
    {"__and__", sizes_broadcast},
    {"__or__", sizes_broadcast},
    {"__xor__", sizes_broadcast},
    {"__lshift__", sizes_broadcast},
    {"__rshift__", sizes_broadcast},
    {"less", sizes_broadcast},
    {"less_equal", sizes_broadcast},
    {"greater", sizes_broadcast},
    {"greater_equal", sizes_broadcast},
    {"not_equal", sizes_broadcast},
    {"isclose", sizes_broadcast},
    {"rsub", sizes_broadcast},
    {"masked_fill", sizes_broadcast},
    {"where", where_sizes},
    {"arctan2", sizes_broadcast},
    {"complex", sizes_broadcast},
    {"polar", sizes_broadcast},
    {"xlogy", sizes_broadcast},
    {"special_xlogy", sizes_broadcast},
    {"masked_scatter", sizes_broadcast},
    {"cross", sizes_broadcast},
    {"linalg_cross", sizes_broadcast},
    {"bernoulli", sizes_of_first},
    {"poisson", sizes_of_first},
    {"binomial", sizes_broadcast},
    {"normal", normal_sizes},
    {"rand_like", sizes_of_first},
    {"randn_like", sizes_of_first},
    {"randint_like", sizes_of_first},
    {"zeros_like", sizes_of_first},
    {"ones_like", sizes_of_first},
    {"full_like", sizes_of_first},
    {"empty_like", sizes_of_first},
    // Ops that keep the sizes of their first tensor.
    {"abs", sizes_of_first},
    {"absolute", sizes_of_first},
    {"arccos", sizes_of_first},
    {"arccosh", sizes_of_first},
    {"arcsin", sizes_of_first},
    {"arcsinh", sizes_of_first},
    {"arctan", sizes_of_first},
    {"arctanh", sizes_of_first},
    {"negative", sizes_of_first},
    {"fix", sizes_of_first},
    {"conj", sizes_of_first},
    {"_conj", sizes_of_first},
    {"resolve_conj", sizes_of_first},
    {"resolve_neg", sizes_of_first},
    {"real", sizes_of_first},
    {"imag", sizes_of_first},
    {"isreal", sizes_of_first},
    {"hardswish", sizes_of_first},
    {"log_sigmoid", sizes_of_first},
    {"prelu", sizes_of_first},
    {"special_erf", sizes_of_first},
    {"special_erfc", sizes_of_first},
    {"special_expit", sizes_of_first},
    {"special_expm1", sizes_of_first},
    {"special_exp2", sizes_of_first},
    {"special_log1p", sizes_of_first},
    {"special_gammaln", sizes_of_first},
    {"special_digamma", sizes_of_first},
    {"special_sinc", sizes_of_first},
    {"special_ndtr", sizes_of_first},
    {"special_logit", sizes_of_first},
    {"special_round", sizes_of_first},
    {"special_i0", sizes_of_first},
    {"clone", sizes_of_first},
    {"contiguous", sizes_of_first},
    {"detach", sizes_of_first},
    {"alias", sizes_of_first},
    {"to", sizes_of_first},
    {"_to_copy", sizes_of_first},
    {"cpu", sizes_of_first},
    {"cuda", sizes_of_first},
    {"type_as", sizes_of_first},
    {"pin_memory", sizes_of_first},
    {"lift", sizes_of_first},
    {"lift_fresh", sizes_of_first},
    {"lift_fresh_copy", sizes_of_first},
    {"_autocast_to_reduced_precision", sizes_of_first},
    {"_autocast_to_full_precision", sizes_of_first},
    {"dropout", sizes_of_first},
    {"alpha_dropout", sizes_of_first},
    {"feature_dropout", sizes_of_first},
    {"feature_alpha_dropout", sizes_of_first},
    {"native_dropout", sizes_of_first_twice},
    {"softmax", sizes_of_first},
    {"_softmax", sizes_of_first},
    {"_safe_softmax", sizes_of_first},
    {"special_softmax", sizes_of_first},
    {"log_softmax", sizes_of_first},
    {"_log_softmax", sizes_of_first},
    {"special_log_softmax", sizes_of_first},
    {"cumsum", sizes_of_first},
    {"cumprod", sizes_of_first},
    {"logcumsumexp", sizes_of_first},
    {"cummax", sizes_of_first_twice},
    {"cummin", sizes_of_first_twice},
    {"sort", sizes_of_first_twice},
    {"argsort", sizes_of_first},
    {"msort", sizes_of_first},
    {"flip", sizes_of_first},
    {"fliplr", sizes_of_first},
    {"flipud", sizes_of_first},
    {"roll", sizes_of_first},
    {"tril", sizes_of_first},
    {"triu", sizes_of_first},
    {"renorm", sizes_of_first},
    {"fill", sizes_of_first},
    {"zero", sizes_of_first},
    {"copy", sizes_of_first},
    {"index_fill", sizes_of_first},
    {"index_copy", sizes_of_first},
    {"index_add", sizes_of_first},
    {"index_reduce", sizes_of_first},
    {"index_put", sizes_of_first},
    {"_index_put_impl", sizes_of_first},
    {"_unsafe_index_put", sizes_of_first},
    {"put", sizes_of_first},
    {"scatter", sizes_of_first},
    {"scatter_add", sizes_of_first},
    {"scatter_reduce", sizes_of_first},
    {"slice_scatter", sizes_of_first},
    {"select_scatter", sizes_of_first},
    {"diagonal_scatter", sizes_of_first},
    {"as_strided_scatter", sizes_of_first},
    {"bucketize", searched_sizes},
    {"searchsorted", searched_sizes},
    {"isin", sizes_of_first},
    {"channel_shuffle", sizes_of_first},
    {"native_channel_shuffle", sizes_of_first},
    {"fft_fftshift", sizes_of_first},
    {"fft_ifftshift", sizes_of_first},
    {"inverse", sizes_of_first},
    {"linalg_inv", sizes_of_first},
    {"cholesky", sizes_of_first},
    {"linalg_cholesky", sizes_of_first},
    {"matrix_exp", sizes_of_first},
    {"linalg_matrix_exp", sizes_of_first},
    {"linalg_matrix_power", sizes_of_first},
    {"matrix_power", sizes_of_first},
    {"fake_quantize_per_tensor_affine", sizes_of_first},
    {"fake_quantize_per_channel_affine", sizes_of_first},
    {"multinomial", samples_sizes},
};

const std::vector<NamedSizeRule> kReductionSizes = {
    {"sum", reduced_sizes},
    {"nansum", reduced_sizes},
    {"mean", reduced_sizes},
    {"nanmean", reduced_sizes},
    {"prod", reduced_sizes},
    {"amax", reduced_sizes},
    {"amin", reduced_sizes},
    {"aminmax", reduced_sizes},
    {"max", reduced_sizes},
    {"min", reduced_sizes},
    {"argmax", reduced_sizes},
    {"argmin", reduced_sizes},
    {"all", reduced_sizes},
    {"any", reduced_sizes},
    {"std", reduced_sizes},
    {"var", reduced_sizes},
    {"std_mean", reduced_sizes},
    {"var_mean", reduced_sizes},
    {"norm", reduced_sizes},
    {"linalg_vector_norm", reduced_sizes},
    {"linalg_norm", reduced_sizes},
    {"frobenius_norm", reduced_sizes},
    {"logsumexp", reduced_sizes},
    {"special_logsumexp", reduced_sizes},
    {"median", reduced_sizes},
    {"nanmedian", reduced_sizes},
    {"mode", reduced_sizes},
    {"kthvalue", reduced_sizes},
    {"count_nonzero", reduced_sizes},
    {"cosine_similarity", distance_sizes},
    {"pairwise_distance", distance_sizes},
    {"mse_loss", loss_sizes},
    {"l1_loss", loss_sizes},
    {"smooth_l1_loss", loss_sizes},
    {"huber_loss", loss_sizes},
    {"kl_div", loss_sizes},
    {"soft_margin_loss", loss_sizes},
    {"binary_cross_entropy", loss_sizes},
    {"binary_cross_entropy_with_logits", loss_sizes},
    {"poisson_nll_loss", loss_sizes},
    {"hinge_embedding_loss", loss_sizes},
    {"margin_ranking_loss", loss_sizes},
    {"cross_entropy_loss", loss_of_classes_sizes},
    {"nll_loss", loss_of_classes_sizes},
    {"nll_loss_nd", loss_of_classes_sizes},
    {"nll_loss2d", loss_of_classes_sizes},
};

const std::vector<NamedSizeRule> kFactorySizes = {
    {"zeros", filled_sizes},
    {"ones", filled_sizes},
    {"full", filled_sizes},
    {"empty", filled_sizes},
    {"empty_permuted", filled_sizes},
    {"empty_strided", filled_sizes},
    {"rand", filled_sizes},
    {"randn", filled_sizes},
    {"randint", filled_sizes},
    {"new_zeros", filled_sizes},
    {"new_ones", filled_sizes},
    {"new_full", filled_sizes},
    {"new_empty", filled_sizes},
    {"new_empty_strided", filled_sizes},
    {"arange", arange_sizes},
    {"linspace", steps_sizes},
    {"logspace", steps_sizes},
    {"hann_window", window_function_sizes},
    {"hamming_window", window_function_sizes},
    {"bartlett_window", window_function_sizes},
    {"blackman_window", window_function_sizes},
    {"kaiser_window", window_function_sizes},
    {"randperm", permutation_sizes},
    {"eye", eye_sizes},
    {"scalar_tensor", number_sizes},
};

} // namespace tracehost::trace
