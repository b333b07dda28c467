#include "tape/kernels.h"

#include "tape/out_kernels.h"

#include <ATen/native/BinaryOps.h>
#include <ATen/native/Copy.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>

#include <algorithm>
#include <array>

namespace tracehost::tape {

namespace native = at::native;

namespace {

using Iterator = at::TensorIteratorBase;
using Alpha = const c10::Scalar &;
constexpr auto kCPU = c10::DeviceType::CPU;

template <auto &stub> void unary(Iterator &it, Alpha) { stub(kCPU, it); }
template <auto &stub> void binary(Iterator &it, Alpha) { stub(kCPU, it); }
void add(Iterator &it, Alpha alpha) { native::add_stub(kCPU, it, alpha); }
// As eager: there is no kernel of sub_stub.
void sub(Iterator &it, Alpha alpha) { native::add_stub(kCPU, it, -alpha); }
void copy(Iterator &it, Alpha) {
  native::copy_stub(kCPU, static_cast<at::TensorIterator &>(it), false);
}
template <auto &stub> void with_number(Iterator &it, Alpha number) { stub(kCPU, it, number); }
void relu(Iterator &it, Alpha) { native::clamp_min_scalar_stub(kCPU, it, 0); }

constexpr std::array kKernels{
    Kernel{"aten::add.Tensor", 2, add},
    Kernel{"aten::add.Scalar", 2, add},
    Kernel{"aten::sub.Tensor", 2, sub},
    Kernel{"aten::sub.Scalar", 2, sub},
    Kernel{"aten::mul.Tensor", 2, binary<native::mul_stub>},
    Kernel{"aten::mul.Scalar", 2, binary<native::mul_stub>},
    Kernel{"aten::div.Tensor", 2, binary<native::div_true_stub>},
    Kernel{"aten::div.Scalar", 2, binary<native::div_true_stub>},
    Kernel{"aten::maximum", 2, binary<native::maximum_stub>},
    Kernel{"aten::minimum", 2, binary<native::minimum_stub>},
    Kernel{"aten::relu", 1, relu},
    Kernel{"aten::neg", 1, unary<native::neg_stub>},
    Kernel{"aten::abs", 1, unary<native::abs_stub>},
    Kernel{"aten::sin", 1, unary<native::sin_stub>},
    Kernel{"aten::cos", 1, unary<native::cos_stub>},
    Kernel{"aten::tanh", 1, unary<native::tanh_stub>},
    Kernel{"aten::sigmoid", 1, unary<native::sigmoid_stub>},
    Kernel{"aten::exp", 1, unary<native::exp_stub>},
    Kernel{"aten::log", 1, unary<native::log_stub>},
    Kernel{"aten::sqrt", 1, unary<native::sqrt_stub>},
    Kernel{"aten::rsqrt", 1, unary<native::rsqrt_stub>},
    Kernel{"aten::reciprocal", 1, unary<native::reciprocal_stub>},
    Kernel{"aten::erf", 1, unary<native::erf_stub>},
    Kernel{"aten::floor", 1, unary<native::floor_stub>},
    Kernel{"aten::ceil", 1, unary<native::ceil_stub>},
    Kernel{"aten::log1p", 1, unary<native::log1p_stub>},
    Kernel{"aten::expm1", 1, unary<native::expm1_stub>},
    Kernel{"aten::copy", 1, copy, 1},
    Kernel{"aten::lerp.Scalar", 2, with_number<native::lerp_kernel_scalar_weight>},
    Kernel{"aten::addcmul", 3, with_number<native::addcmul_stub>},
    Kernel{"aten::addcdiv", 3, with_number<native::addcdiv_stub>},
};

} // namespace

bool has_kernel(std::string_view op) { return find_kernel(op) || has_out_kernel(op); }

const Kernel *find_kernel(std::string_view op) {
  const std::size_t end = std::min(op.find('.'), op.size());
  const std::size_t in_place = op.substr(0, end).ends_with('_') ? 1 : 0;
  const auto *const found =
      std::find_if(kKernels.begin(), kKernels.end(), [&](const Kernel &kernel) {
        return kernel.op.size() + in_place == op.size() &&
               kernel.op.starts_with(op.substr(0, end - in_place)) &&
               kernel.op.ends_with(op.substr(end));
      });
  return found == kKernels.end() ? nullptr : found;
}

} // namespace tracehost::tape
