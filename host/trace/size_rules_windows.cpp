#include "trace/size_rules.h"

#include <algorithm>
#include <cmath>

/// Ops on windows (convolutions, pools), pads and ops that scale, by torch's formulas.

namespace tracehost::trace {

namespace {

/// A list of one number stands for `rank` of them.
Dims of_rank(Dims numbers, std::size_t rank) {
  if (numbers.size() == 1)
    numbers.resize(rank, numbers[0]);
  return numbers.size() == rank ? numbers : throw NoRule();
}

Dims windows_argument(const SizeCall &call, const char *name, std::size_t rank,
                      std::int64_t otherwise) {
  if (!call.has(name))
    return Dims(rank, Size(otherwise));
  const Dims given = call.numbers(name);
  return given.empty() ? Dims(rank, Size(otherwise)) : of_rank(given, rank);
}

Size convolved(const Size &size, const Size &kernel, const Size &stride, const Size &padding,
               const Size &dilation) {
  return floor_divide(size + padding * 2 - dilation * (kernel - 1) - 1, stride) + 1;
}

/// The weight is [out, in / groups, kernel...], or [in, out / groups, kernel...] if transposed.
Parts convolution(const SizeCall &call, bool transposed) {
  Dims result = call.dims("input");
  const Dims &weight = call.dims("weight");
  const std::size_t rank = weight.size() - 2;
  if (result.size() != rank + 1 && result.size() != rank + 2)
    throw NoRule();
  const Dims stride = windows_argument(call, "stride", rank, 1);
  const Dims dilation = windows_argument(call, "dilation", rank, 1);
  const std::size_t first = result.size() - rank;
  result[first - 1] = transposed ? weight[1] * call.number("groups") : weight[0];
  if (call.is_text("padding") && call.text("padding") == "same")
    return {result};
  const Dims padding =
      call.is_text("padding") ? Dims(rank, Size(0)) : windows_argument(call, "padding", rank, 0);
  const Dims more = windows_argument(call, "output_padding", rank, 0);
  for (std::size_t d = 0; d < rank; ++d) {
    Size &size = result[first + d];
    const Size kernel = weight[d + 2];
    size = transposed
               ? (size - 1) * stride[d] - padding[d] * 2 + dilation[d] * (kernel - 1) + more[d] + 1
               : convolved(size, kernel, stride[d], padding[d], dilation[d]);
  }
  return {result};
}

Parts convolution_sizes(const SizeCall &call) { return convolution(call, call.flag("transposed")); }
Parts conv_transposed_sizes(const SizeCall &call) { return convolution(call, true); }

/// With ceil_mode the last window may hang over, but starts in the input or its left padding.
Size pooled(const Size &size, const Size &kernel, const Size &stride, const Size &padding,
            const Size &dilation, bool ceil_mode) {
  const Size room = size + padding * 2 - dilation * (kernel - 1) - 1;
  if (!ceil_mode)
    return floor_divide(room, stride) + 1;
  const Size count = floor_divide(room + stride - 1, stride) + 1;
  return count - Size::made(Size::Op::less_equal, size + padding, (count - 1) * stride);
}

Parts pool_sizes(const SizeCall &call, std::size_t rank) {
  Dims result = call.dims("self");
  if (result.size() <= rank)
    throw NoRule();
  const Dims kernel = windows_argument(call, "kernel_size", rank, 1);
  Dims stride = windows_argument(call, "stride", rank, 0);
  const Dims padding = windows_argument(call, "padding", rank, 0);
  const Dims dilation = windows_argument(call, "dilation", rank, 1);
  for (std::size_t d = 0; d < rank; ++d) {
    if (stride[d].is(0))
      stride[d] = kernel[d];
    Size &size = result[result.size() - rank + d];
    size = pooled(size, kernel[d], stride[d], padding[d], dilation[d], call.flag("ceil_mode"));
  }
  return {result, result};
}

Parts pool_1d_sizes(const SizeCall &call) { return pool_sizes(call, 1); }
Parts pool_2d_sizes(const SizeCall &call) { return pool_sizes(call, 2); }
Parts pool_3d_sizes(const SizeCall &call) { return pool_sizes(call, 3); }

/// The last dimensions are as given.
Parts sizes_to_output(const SizeCall &call, std::size_t rank) {
  Dims result = call.first();
  const Dims output = of_rank(call.numbers("output_size"), rank);
  if (result.size() <= rank)
    throw NoRule();
  std::copy(output.begin(), output.end(), result.end() - static_cast<std::ptrdiff_t>(rank));
  return {result, result};
}

Parts output_1d_sizes(const SizeCall &call) { return sizes_to_output(call, 1); }
Parts output_2d_sizes(const SizeCall &call) { return sizes_to_output(call, 2); }
Parts output_3d_sizes(const SizeCall &call) { return sizes_to_output(call, 3); }

/// From the last dimension on, a pair for each.
Parts padded_sizes(const SizeCall &call) {
  Dims result = call.dims("self");
  const Dims pad = call.numbers(call.has("pad") ? "pad" : "padding");
  for (std::size_t i = 0; i + 1 < pad.size(); i += 2) {
    Size &size = result.at(result.size() - 1 - i / 2);
    size = size + pad[i] + pad[i + 1];
  }
  return {result};
}

/// A factor of a size, floor(size * factor), where floating point is exact: it has few bits.
Size scaled(const Size &size, double factor) {
  constexpr std::int64_t most_denominator = 1 << 20;
  std::int64_t denominator = 1;
  while (denominator < most_denominator && factor != std::floor(factor)) {
    factor *= 2;
    denominator *= 2;
  }
  if (factor != std::floor(factor) || factor < 0 || factor > most_denominator)
    throw NoRule();
  return floor_divide(size * static_cast<std::int64_t>(factor), denominator);
}

Parts upsampled_sizes(const SizeCall &call, std::size_t rank) {
  if (call.has("output_size"))
    return sizes_to_output(call, rank);
  Dims result = call.first();
  const auto factors = call.reals("scale_factors");
  for (std::size_t d = 0; d < rank; ++d) {
    Size &size = result.at(result.size() - rank + d);
    size = scaled(size, factors.at(d));
  }
  return {result};
}

Parts upsampled_1d_sizes(const SizeCall &call) { return upsampled_sizes(call, 1); }
Parts upsampled_2d_sizes(const SizeCall &call) { return upsampled_sizes(call, 2); }
Parts upsampled_3d_sizes(const SizeCall &call) { return upsampled_sizes(call, 3); }

/// Windows become columns.
Parts im2col_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  const Dims kernel = windows_argument(call, "kernel_size", 2, 1),
             stride = windows_argument(call, "stride", 2, 1),
             padding = windows_argument(call, "padding", 2, 0),
             dilation = windows_argument(call, "dilation", 2, 1);
  Dims result(own.begin(), own.end() - 3);
  result.push_back(own.at(own.size() - 3) * kernel[0] * kernel[1]);
  Size places(1);
  for (std::size_t d = 0; d < 2; ++d)
    places = places *
             convolved(own.at(own.size() - 2 + d), kernel[d], stride[d], padding[d], dilation[d]);
  result.push_back(places);
  return {result};
}

Parts col2im_sizes(const SizeCall &call) {
  const Dims &own = call.dims("self");
  const auto kernel = call.constants("kernel_size");
  const Dims output = call.numbers("output_size");
  Dims result(own.begin(), own.end() - 2);
  result.push_back(floor_divide(own.at(own.size() - 2), kernel.at(0) * kernel.at(1)));
  result.insert(result.end(), output.begin(), output.end());
  return {result};
}

} // namespace

const std::vector<NamedSizeRule> kWindowSizes = {
    {"conv1d conv2d conv3d convolution _convolution _convolution_mode", convolution_sizes},
    {"conv_transpose1d conv_transpose2d conv_transpose3d", conv_transposed_sizes},
    {"max_pool1d max_pool1d_with_indices avg_pool1d", pool_1d_sizes},
    {"max_pool2d max_pool2d_with_indices avg_pool2d", pool_2d_sizes},
    {"max_pool3d max_pool3d_with_indices avg_pool3d", pool_3d_sizes},
    {"adaptive_avg_pool1d adaptive_max_pool1d", output_1d_sizes},
    {"adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d fractional_max_pool2d "
     "max_unpool2d",
     output_2d_sizes},
    {"adaptive_avg_pool3d _adaptive_avg_pool3d adaptive_max_pool3d fractional_max_pool3d "
     "max_unpool3d",
     output_3d_sizes},
    {"pad constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d "
     "replication_pad1d replication_pad2d replication_pad3d _pad_circular",
     padded_sizes},
    {"upsample_nearest1d _upsample_nearest_exact1d upsample_linear1d", upsampled_1d_sizes},
    {"upsample_nearest2d _upsample_nearest_exact2d upsample_bilinear2d "
     "_upsample_bilinear2d_aa upsample_bicubic2d _upsample_bicubic2d_aa",
     upsampled_2d_sizes},
    {"upsample_nearest3d _upsample_nearest_exact3d upsample_trilinear3d", upsampled_3d_sizes},
    {"im2col", im2col_sizes},
    {"col2im", col2im_sizes},
};

} // namespace tracehost::trace
