#include "trace/size_rules.h"

#include <algorithm>
#include <map>

/// Products of tensors, and layers of networks.

namespace tracehost::trace {

namespace {

// ---- Products

Parts matmul_sizes(const SizeCall &call) {
  Dims a = call.first(), b = call.all().at(1);
  if (a.empty() || b.empty())
    throw NoRule();
  const bool vector = a.size() == 1, by_vector = b.size() == 1;
  if (vector)
    a.insert(a.begin(), Size(1));
  if (by_vector)
    b.emplace_back(1);
  const Size rows = a[a.size() - 2], columns = b[b.size() - 1];
  a.resize(a.size() - 2);
  b.resize(b.size() - 2);
  Dims result = call.broadcast(a, b);
  if (!vector)
    result.push_back(rows);
  if (!by_vector)
    result.push_back(columns);
  return {result};
}

Parts linear_sizes(const SizeCall &call) {
  Dims result = call.dims("input");
  const Dims &weight = call.dims("weight");
  result.pop_back();
  if (weight.size() == 2)
    result.push_back(weight[0]);
  return {result};
}

/// What is added is broadcast to the product of the two tensors behind it.
Parts added_product_sizes(const SizeCall &call) {
  const Parts tensors = call.all();
  const Dims &a = tensors.at(1), &b = tensors.at(2);
  Dims result = a;
  result.pop_back();
  if (b.size() > 1)
    result.push_back(b.back());
  return {result};
}

Parts outer_sizes(const SizeCall &call) {
  const Parts tensors = call.all();
  return {Dims{tensors.at(0).at(0), tensors.at(1).at(0)}};
}

Parts kron_sizes(const SizeCall &call) {
  Dims a = call.all().at(0), b = call.all().at(1);
  while (a.size() < b.size())
    a.insert(a.begin(), Size(1));
  while (b.size() < a.size())
    b.insert(b.begin(), Size(1));
  for (std::size_t d = 0; d < a.size(); ++d)
    a[d] = a[d] * b[d];
  return {a};
}

Parts cdist_sizes(const SizeCall &call) {
  const Dims &x = call.dims("x1"), &y = call.dims("x2");
  if (x.size() < 2 || y.size() < 2)
    throw NoRule();
  Dims result = call.broadcast(Dims(x.begin(), x.end() - 2), Dims(y.begin(), y.end() - 2));
  result.push_back(x[x.size() - 2]);
  result.push_back(y[y.size() - 2]);
  return {result};
}

Parts tensordot_sizes(const SizeCall &call) {
  Dims result;
  for (const auto &[tensor, dims] :
       {std::pair("self", "dims_self"), std::pair("other", "dims_other")}) {
    const Dims &own = call.dims(tensor);
    const auto gone = call.dimensions(dims, own.size());
    for (std::size_t d = 0; d < own.size(); ++d)
      if (std::find(gone.begin(), gone.end(), d) == gone.end())
        result.push_back(own[d]);
  }
  return {result};
}

Parts einsum_sizes(const SizeCall &call) {
  std::string equation = call.text("equation");
  std::erase(equation, ' ');
  if (equation.find('.') != std::string::npos)
    throw NoRule();
  const auto arrow = equation.find("->");
  const std::string given = equation.substr(0, arrow);
  std::map<char, Size> sizes;
  std::map<char, int> times;
  const Parts tensors = call.tensors("tensors");
  std::size_t tensor = 0, d = 0;
  for (const char letter : given) {
    if (letter == ',') {
      ++tensor;
      d = 0;
      continue;
    }
    const Size size = tensors.at(tensor).at(d++);
    const auto [place, added] = sizes.emplace(letter, size);
    if (!added)
      place->second = call.broadcast(place->second, size);
    ++times[letter];
  }
  std::string results;
  if (arrow != std::string::npos)
    results = equation.substr(arrow + 2);
  else
    for (const auto &[letter, count] : times)
      if (count == 1)
        results += letter;
  Dims result;
  for (const char letter : results)
    result.push_back(sizes.at(letter));
  return {result};
}

// ---- Layers

Parts attention_sizes(const SizeCall &call) {
  const Dims &query = call.dims("query"), &key = call.dims("key"), &value = call.dims("value");
  if (query.size() < 2 || key.size() < 2 || value.size() < 2)
    throw NoRule();
  const auto batch = [](const Dims &dims) { return Dims(dims.begin(), dims.end() - 2); };
  Dims result = call.flag("enable_gqa") ? batch(query) : call.broadcast(batch(query), batch(key));
  if (!call.flag("enable_gqa"))
    result = call.broadcast(result, batch(value));
  result.push_back(query[query.size() - 2]);
  result.push_back(value.back());
  return {result};
}

/// The last dimension of the result is that of the hidden state, for each direction.
Parts recurrent_sizes(const SizeCall &call) {
  if (!call.has("input")) // packed
    throw NoRule();
  Parts states = call.is_list("hx") ? call.tensors("hx") : Parts{call.dims("hx")};
  Dims result = call.dims("input");
  result.back() = states.at(0).back() * (call.flag("bidirectional") ? 2 : 1);
  states.insert(states.begin(), result);
  return states;
}

Parts cell_sizes(const SizeCall &call) {
  return call.is_list("hx") ? call.tensors("hx") : Parts{call.dims("hx")};
}

Parts glu_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  Size &size = result.at(call.dimension("dim", result.size()));
  size = floor_divide(size, 2);
  return {result};
}

/// The batch and the channels of the input, and the places of the grid.
Parts grid_sampled_sizes(const SizeCall &call) {
  const Dims &input = call.dims("input"), &grid = call.dims("grid");
  Dims result{input.at(0), input.at(1)};
  result.insert(result.end(), grid.begin() + 1, grid.end() - 1);
  return {result};
}

Parts affine_grid_sizes(const SizeCall &call) {
  const Dims size = call.numbers("size");
  Dims result{size.at(0)};
  result.insert(result.end(), size.begin() + 2, size.end());
  result.emplace_back(static_cast<std::int64_t>(size.size()) - 2);
  return {result};
}

Parts pixel_shuffle_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const std::int64_t factor = call.constant("upscale_factor");
  const std::size_t rank = result.size();
  result.at(rank - 3) = floor_divide(result.at(rank - 3), factor * factor);
  result[rank - 2] = result[rank - 2] * factor;
  result[rank - 1] = result[rank - 1] * factor;
  return {result};
}

/// torch gives an empty tensor back as it is.
Parts pixel_unshuffle_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  Size elements(1);
  for (const Size &size : result)
    elements = elements * size;
  const Size empty = Size::made(Size::Op::equal, elements, 0);
  const bool was_empty = call.at_trace(elements) == 0;
  const auto needing_that = [&](Dims sizes) {
    for (Size &size : sizes)
      if (!empty.constant())
        size = size.with({empty.expression(), was_empty});
    return Parts{sizes};
  };
  if (was_empty)
    return needing_that(result);
  const std::int64_t factor = call.constant("downscale_factor");
  const std::size_t rank = result.size();
  result.at(rank - 3) = result.at(rank - 3) * (factor * factor);
  result[rank - 2] = floor_divide(result[rank - 2], factor);
  result[rank - 1] = floor_divide(result[rank - 1], factor);
  return needing_that(result);
}

// ---- Transforms of Fourier

Size transformed(const SizeCall &call, const Size &size) {
  return call.has("n") ? call.number("n") : size;
}

Parts fft_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  Size &size = result.at(call.dimension("dim", result.size()));
  size = transformed(call, size);
  return {result};
}

Parts rfft_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  Size &size = result.at(call.dimension("dim", result.size()));
  size = floor_divide(transformed(call, size), 2) + 1;
  return {result};
}

Parts irfft_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  Size &size = result.at(call.dimension("dim", result.size()));
  size = transformed(call, (size - 1) * 2);
  return {result};
}

} // namespace

const std::vector<NamedSizeRule> kProductSizes = {
    {"matmul linalg_matmul mm bmm mv", matmul_sizes},
    {"dot vdot", sizes_of_number},
    {"linear", linear_sizes},
    {"addmm baddbmm addmv", added_product_sizes},
    {"outer ger", outer_sizes},
    {"kron", kron_sizes},
    {"cdist", cdist_sizes},
    {"tensordot", tensordot_sizes},
    {"einsum", einsum_sizes},
};

const std::vector<NamedSizeRule> kNetworkSizes = {
    {"layer_norm group_norm batch_norm instance_norm rms_norm "
     "_transformer_encoder_layer_fwd _native_multi_head_attention",
     sizes_of_first},
    // The sizes of the statistics are not known.
    {"native_layer_norm native_group_norm native_batch_norm", sizes_of_first},
    {"scaled_dot_product_attention", attention_sizes},
    {"lstm gru rnn_tanh rnn_relu", recurrent_sizes},
    {"lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell", cell_sizes},
    {"glu", glu_sizes},
    {"grid_sampler grid_sampler_2d grid_sampler_3d", grid_sampled_sizes},
    {"affine_grid_generator", affine_grid_sizes},
    {"pixel_shuffle", pixel_shuffle_sizes},
    {"pixel_unshuffle", pixel_unshuffle_sizes},
    {"fft_fft fft_ifft", fft_sizes},
    {"fft_rfft fft_ihfft", rfft_sizes},
    {"fft_irfft fft_hfft", irfft_sizes},
};

} // namespace tracehost::trace
