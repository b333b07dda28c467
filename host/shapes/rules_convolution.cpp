#include "shapes/rules.h"

#include <ATen/ATen.h>
#include <ATen/native/ConvUtils.h>

/// The kernels that torch's convolution ends in, which it chooses by itself.

namespace tracehost::shapes {
namespace {

at::MemoryFormat format_of(const at::Tensor &input, const at::Tensor &weight) {
  const auto last =
      input.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  const bool is_last =
      (input.dim() == 4 || input.dim() == 5) &&
      (input.suggest_memory_format() == last || weight.suggest_memory_format() == last);
  return is_last ? last : at::MemoryFormat::Contiguous;
}

at::Tensor forward(const at::Tensor &input, const at::Tensor &weight,
                   const std::vector<std::int64_t> &padding,
                   const std::vector<std::int64_t> &stride,
                   const std::vector<std::int64_t> &dilation) {
  const auto sizes =
      at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  for (const std::int64_t size : sizes)
    TORCH_CHECK(size >= 0, "Given input of size ", input.sizes(), ", the kernel of size ",
                weight.sizes(), " does not fit");
  return at::empty(sizes, input.options().memory_format(format_of(input, weight)));
}

/// (input, weight, bias, padding, stride, dilation, groups)
Values mkldnn(const Values &a) {
  return {forward(a[0].toTensor(), a[1].toTensor(), a[3].toIntVector(), a[4].toIntVector(),
                  a[5].toIntVector())};
}

/// (input, weight, padding, stride, dilation, groups, ...)
Values cudnn(const Values &a) {
  return {forward(a[0].toTensor(), a[1].toTensor(), a[2].toIntVector(), a[3].toIntVector(),
                  a[4].toIntVector())};
}

/// (input, weight, kernel_size, bias, stride, padding[, dilation])
Values slow(const Values &a) {
  const auto ones = std::vector<std::int64_t>(a[4].toIntVector().size(), 1);
  return {forward(a[0].toTensor(), a[1].toTensor(), a[5].toIntVector(), a[4].toIntVector(),
                  a.size() > 6 ? a[6].toIntVector() : ones)};
}

/// (input, weight, kernel_size, bias, stride, padding, output_padding, dilation)
Values slow_transposed(const Values &a) {
  const at::Tensor input = a[0].toTensor(), weight = a[1].toTensor();
  const auto sizes =
      at::native::conv_input_size(input.sizes(), weight.sizes(), a[5].toIntVector(),
                                  a[6].toIntVector(), a[4].toIntVector(), a[7].toIntVector(), 1);
  return {at::empty(sizes, input.options())};
}

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, ...)
Values chosen(const Values &a) {
  const at::Tensor input = a[0].toTensor(), weight = a[1].toTensor();
  if (!a[6].toBool())
    return by_composite("aten::_convolution", "", a);
  const auto spatial = static_cast<std::size_t>(input.dim() - 2);
  const auto for_all = [&](const c10::IValue &value) {
    auto list = value.toIntVector();
    return list.size() == 1 ? std::vector<std::int64_t>(spatial, list[0]) : list;
  };
  const auto sizes =
      at::native::conv_input_size(input.sizes(), weight.sizes(), for_all(a[4]), for_all(a[7]),
                                  for_all(a[3]), for_all(a[5]), a[8].toInt());
  for (const std::int64_t size : sizes)
    TORCH_CHECK(size >= 0, "Given input of size ", input.sizes(),
                ", the transposed kernel of size ", weight.sizes(), " gives none");
  return {at::empty(sizes, input.options().memory_format(format_of(input, weight)))};
}

/// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask)
Values convolution_backward(const Values &a) {
  const at::Tensor grad = a[0].toTensor(), input = a[1].toTensor(), weight = a[2].toTensor();
  const auto mask = a[10].toBoolList();
  const auto format = format_of(input, weight);
  Values results(3, c10::IValue(at::Tensor()));
  if (mask.get(0))
    results[0] = at::empty(input.sizes(), input.options().memory_format(format));
  if (mask.get(1))
    results[1] = at::empty(weight.sizes(), weight.options().memory_format(format));
  if (mask.get(2))
    results[2] =
        at::empty({a[7].toBool() ? weight.size(1) * a[9].toInt() : weight.size(0)}, grad.options());
  return results;
}

} // namespace

const std::vector<NamedRule> kConvolutionRules = {
    {"aten::_convolution", chosen},
    {"aten::mkldnn_convolution", mkldnn},
    {"aten::cudnn_convolution", cudnn},
    {"aten::_slow_conv2d_forward", slow},
    {"aten::slow_conv3d_forward", slow},
    {"aten::slow_conv_dilated2d", slow},
    {"aten::slow_conv_dilated3d", slow},
    {"aten::slow_conv_transpose3d", slow_transposed},
    {"aten::convolution_backward", convolution_backward},
};

} // namespace tracehost::shapes
