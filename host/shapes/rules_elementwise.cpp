#include "shapes/rules.h"

#include <ATen/ATen.h>

/// Ops on each element, written as others on each element of the same operands.

namespace tracehost::shapes {
namespace {

Values relu(const Values &a) { return {at::clamp_min(a[0].toTensor(), 0)}; }
Values hardtanh(const Values &a) {
  const at::Tensor self = a[0].toTensor();
  if (at::isIntegralType(self.scalar_type(), false))
    return {at::clamp(self, a[1].toScalar().toLong(), a[2].toScalar().toLong())};
  return {at::clamp(self, a[1].toScalar(), a[2].toScalar())};
}
Values isnan(const Values &a) { return {at::ne(a[0].toTensor(), a[0].toTensor())}; }
Values hardswish(const Values &a) { return {at::silu(a[0].toTensor())}; }
Values logit(const Values &a) { return {at::sigmoid(a[0].toTensor())}; }

/// (condition, self, other)
Values where(const Values &a) {
  const at::Tensor condition = a[0].toTensor(), self = a[1].toTensor(), other = a[2].toTensor();
  TORCH_CHECK(condition.scalar_type() == at::kBool || condition.scalar_type() == at::kByte,
              "where expected condition to be a boolean tensor, but got a tensor with dtype ",
              condition.scalar_type());
  const auto dtype = at::result_type(self, other);
  return {at::addcmul(condition.to(at::kBool), self.to(dtype), other.to(dtype))};
}

/// (self, other, alpha)
Values rsub(const Values &a) {
  return {at::sub(a[1].toTensor(), a[0].toTensor(), a[2].toScalar())};
}

Values floor_divide(const Values &a) {
  return {at::div(a[0].toTensor(), a[1].toTensor(), "floor")};
}

/// (self, target, weight, reduction)
Values binary_cross_entropy(const Values &a) {
  const at::Tensor self = a[0].toTensor(), target = a[1].toTensor();
  TORCH_CHECK(self.sizes() == target.sizes(), "Using a target size (", target.sizes(),
              ") that is different to the input size (", self.sizes(), ") is not allowed");
  const bool whole = a[3].toInt() == at::Reduction::None;
  return {whole ? at::empty_like(self) : at::empty({}, self.options())};
}

/// (self, target, reduction, delta)
Values huber_loss(const Values &a) {
  return {at::smooth_l1_loss(a[0].toTensor(), a[1].toTensor(), a[2].toInt(), 1.0)};
}

Values prelu(const Values &a) { return {at::mul(a[0].toTensor(), a[1].toTensor())}; }

/// (grad, self, ...) or (grad, output, ...): the gradient of the second.
Values gradient(const Values &a) { return {at::mul(a[0].toTensor(), a[1].toTensor())}; }

} // namespace

const std::vector<NamedRule> kElementwiseRules = {
    {"aten::relu", relu},
    {"aten::hardtanh", hardtanh},
    {"aten::isnan", isnan},
    {"aten::hardswish", hardswish},
    {"aten::logit", logit},
    {"aten::where.self", where},
    {"aten::rsub.Tensor", rsub},
    {"aten::floor_divide", floor_divide},
    {"aten::binary_cross_entropy", binary_cross_entropy},
    {"aten::huber_loss", huber_loss},
    {"aten::_prelu_kernel", prelu},
    {"aten::hardtanh_backward", gradient},
    {"aten::hardswish_backward", gradient},
    {"aten::mish_backward", gradient},
};

} // namespace tracehost::shapes
