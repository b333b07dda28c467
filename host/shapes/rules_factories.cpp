#include "shapes/fake_tensor.h"
#include "shapes/rules.h"
#include "shapes/without_data.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scalar_tensor.h>

/// Ops that make a tensor of nothing, or of random numbers.

namespace tracehost::shapes {
namespace {

at::ScalarType dtype_of(const c10::IValue &dtype) {
  return dtype.isNone() ? c10::typeMetaToScalarType(c10::get_default_dtype())
                        : dtype.toScalarType();
}

c10::Device device_of(const c10::IValue &device) {
  return device.isNone() ? c10::Device(c10::kCPU) : device.toDevice();
}

void check_strided(const c10::IValue &layout) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      layout.isNone() || layout.toLayout() == c10::kStrided,
      "aten::empty does not run without data in a layout that is not strided");
}

at::Tensor make(c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::IValue &dtype,
                const c10::IValue &device) {
  if (!device_of(device).is_meta())
    return fake_tensor({sizes, strides}, dtype_of(dtype), device_of(device));
  const WithData for_real;
  return at::empty_strided(sizes, strides,
                           at::TensorOptions().dtype(dtype_of(dtype)).device(c10::kMeta));
}

/// (size, dtype, layout, device, pin_memory, memory_format)
Values empty(const Values &arguments) {
  const auto sizes = arguments[0].toIntVector();
  check_strided(arguments[2]);
  for (const std::int64_t size : sizes)
    TORCH_CHECK(size >= 0, "Trying to create tensor with negative dimension ", size, ": ", sizes);
  const auto format =
      arguments[5].isNone() ? c10::MemoryFormat::Contiguous : arguments[5].toMemoryFormat();
  c10::DimVector strides;
  if (format == c10::MemoryFormat::ChannelsLast)
    strides = c10::DimVector(c10::get_channels_last_strides_2d(sizes));
  else if (format == c10::MemoryFormat::ChannelsLast3d)
    strides = c10::DimVector(c10::get_channels_last_strides_3d(sizes));
  else
    strides = c10::contiguous_strides(sizes);
  return {make(sizes, strides, arguments[1], arguments[3])};
}

/// (size, stride, dtype, layout, device, pin_memory)
Values empty_strided(const Values &arguments) {
  check_strided(arguments[3]);
  return {make(arguments[0].toIntVector(), arguments[1].toIntVector(), arguments[2], arguments[4])};
}

/// (s, dtype, layout, device, pin_memory): a number, which code of an op may read.
Values scalar_tensor(const Values &a) {
  const auto options = at::TensorOptions().dtype(dtype_of(a[1])).device(device_of(a[3]));
  if (!options.device().is_cpu())
    return {at::empty({}, options)};
  const WithData for_real;
  return {at::scalar_tensor(a[0].toScalar(), options)};
}

/// (self): a literal, whose values the graph keeps.
Values lift(const Values &a) {
  const at::Tensor t = a[0].toTensor();
  return {is_fake_tensor(t) || t.is_meta() || !can_fake_tensor(t) ? t : alike(t, t.device())};
}

/// (n, generator, out)
Values randperm(const Values &arguments) {
  at::Tensor out = arguments[2].toTensor();
  return {out.resize_({arguments[0].toInt()})};
}

/// (self, num_samples, replacement, generator)
Values multinomial(const Values &arguments) {
  const at::Tensor self = arguments[0].toTensor();
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  const std::int64_t count = arguments[1].toInt();
  return {self.dim() == 1 ? at::empty({count}, self.options().dtype(at::kLong))
                          : at::empty({self.size(0), count}, self.options().dtype(at::kLong))};
}

/// (self, other, ...): as both broadcast.
Values like_both(const Values &arguments) {
  return {at::empty_like(at::add(arguments[0].toTensor(), arguments[1].toTensor()))};
}

} // namespace

const std::vector<NamedRule> kFactoryRules = {
    {"aten::empty.memory_format", empty},
    {"aten::empty_strided", empty_strided},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::lift_fresh", lift},
    {"aten::lift", lift},
    {"aten::randperm.generator_out", randperm},
    {"aten::multinomial", multinomial},
    {"aten::poisson", like_first},
    {"aten::_standard_gamma", like_first},
    {"aten::_sample_dirichlet", like_first},
    {"aten::rrelu_with_noise", like_first},
    {"aten::binomial", like_both},
};

} // namespace tracehost::shapes
