#include "tape/out_kernels.h"

#include "tape/kernels.h"
#include "tape/own_draws.h"
#include "tape/products.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/Reduction.h>
#include <ATen/native/Copy.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/native/layer_norm.h>
#include <ATen/ops/_log_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_log_softmax_cpu_dispatch.h>
#include <ATen/ops/_softmax_backward_data_cpu_dispatch.h>
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/cat_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq_cpu_dispatch.h>
#include <ATen/ops/ge_cpu_dispatch.h>
#include <ATen/ops/gelu_backward_cpu_dispatch.h>
#include <ATen/ops/gelu_cpu_dispatch.h>
#include <ATen/ops/gt_cpu_dispatch.h>
#include <ATen/ops/le_cpu_dispatch.h>
#include <ATen/ops/lt_cpu_dispatch.h>
#include <ATen/ops/mean_cpu_dispatch.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/mse_loss_backward_cpu_dispatch.h>
#include <ATen/ops/mse_loss_cpu_dispatch.h>
#include <ATen/ops/ne_cpu_dispatch.h>
#include <ATen/ops/pow_cpu_dispatch.h>
#include <ATen/ops/sigmoid_backward_cpu_dispatch.h>
#include <ATen/ops/silu_backward_cpu_dispatch.h>
#include <ATen/ops/silu_cpu_dispatch.h>
#include <ATen/ops/sum_cpu_dispatch.h>
#include <ATen/ops/tanh_backward_cpu_dispatch.h>
#include <ATen/ops/threshold_backward_cpu_dispatch.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tracehost::tape {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;
using Bind = OutKernel (*)(Arguments, at::Tensor);

at::OptionalIntArrayRef dimensions(const c10::IValue &value, std::vector<std::int64_t> &kept) {
  if (value.isNone())
    return std::nullopt;
  kept = value.toIntVector();
  return at::OptionalIntArrayRef(kept);
}

OutKernel mm(Arguments a, at::Tensor out) {
  if (auto product = bind_product(a[0].toTensor(), a[1].toTensor(), {}, out))
    return product;
  return [x = a[0].toTensor(), y = a[1].toTensor(), out]() mutable { at::cpu::mm_outf(x, y, out); };
}

OutKernel matmul(Arguments a, at::Tensor out) {
  return a[0].toTensor().dim() == 2 && a[1].toTensor().dim() == 2 ? mm(a, out) : nullptr;
}

OutKernel bmm(Arguments a, at::Tensor out) {
  return
      [x = a[0].toTensor(), y = a[1].toTensor(), out]() mutable { at::cpu::bmm_outf(x, y, out); };
}

bool is_one(const c10::IValue &number) { return number.toScalar().toDouble() == 1; }

OutKernel addmm(Arguments a, at::Tensor out) {
  if (is_one(a[3]) && is_one(a[4]))
    if (auto product = bind_product(a[1].toTensor(), a[2].toTensor(), a[0].toTensor(), out))
      return product;
  return
      [c = a[0].toTensor(), x = a[1].toTensor(), y = a[2].toTensor(), beta = a[3].toScalar(),
       alpha = a[4].toScalar(), out]() mutable { at::cpu::addmm_outf(c, x, y, beta, alpha, out); };
}

/// As at::linear(): a product of matrices for any number of dimensions.
OutKernel linear(Arguments a, at::Tensor out) {
  const at::Tensor x = a[0].toTensor(), w = a[1].toTensor();
  if (x.dim() < 2 || w.dim() != 2 || !x.is_contiguous() || !out.is_contiguous() || x.is_mkldnn())
    return nullptr;
  at::Tensor rows = x.view({-1, x.size(-1)}), result = out.view({-1, out.size(-1)});
  const at::Tensor bias_of = a[2].isNone() ? at::Tensor() : a[2].toTensor();
  if (auto product = bind_product(rows, w.t(), bias_of, result))
    return product;
  if (a[2].isNone() || !a[2].toTensor().defined())
    return [rows, w = w.t(), result]() mutable { at::cpu::mm_outf(rows, w, result); };
  return [bias = a[2].toTensor(), rows, w = w.t(), result]() mutable {
    at::cpu::addmm_outf(bias, rows, w, 1, 1, result);
  };
}

OutKernel softmax(Arguments a, at::Tensor out) {
  if (!a[2].isNone())
    return nullptr;
  return [x = a[0].toTensor(), dim = a[1].toInt(), out]() mutable {
    at::cpu::_softmax_outf(x, dim, false, out);
  };
}

OutKernel log_softmax(Arguments a, at::Tensor out) {
  if (!a[2].isNone())
    return nullptr;
  return [x = a[0].toTensor(), dim = a[1].toInt(), out]() mutable {
    at::cpu::_log_softmax_outf(x, dim, false, out);
  };
}

OutKernel gelu(Arguments a, at::Tensor out) {
  return [x = a[0].toTensor(), how = a[1].toStringRef(), out]() mutable {
    at::cpu::gelu_outf(x, how, out);
  };
}

OutKernel silu(Arguments a, at::Tensor out) {
  return [x = a[0].toTensor(), out]() mutable { at::cpu::silu_outf(x, out); };
}

OutKernel power(Arguments a, at::Tensor out) {
  return
      [x = a[0].toTensor(), y = a[1].toScalar(), out]() mutable { at::cpu::pow_outf(x, y, out); };
}

template <auto reduce> OutKernel over_dimensions(Arguments a, at::Tensor out) {
  if (!a[3].isNone())
    return nullptr;
  std::vector<std::int64_t> kept;
  const bool all = !dimensions(a[1], kept);
  return [x = a[0].toTensor(), all, kept, keeps = a[2].toBool(), out]() mutable {
    reduce(x, all ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(kept), keeps, std::nullopt,
           out);
  };
}

template <auto reduce> OutKernel over_all(Arguments a, at::Tensor out) {
  if (!a[1].isNone())
    return nullptr;
  return [x = a[0].toTensor(), out]() mutable {
    reduce(x, at::OptionalIntArrayRef(), false, std::nullopt, out);
  };
}

template <auto compute> OutKernel of_two(Arguments a, at::Tensor out) {
  return [x = a[0].toTensor(), y = a[1].toTensor(), out]() mutable { compute(x, y, out); };
}
template <auto compute> OutKernel of_number(Arguments a, at::Tensor out) {
  return [x = a[0].toTensor(), y = a[1].toScalar(), out]() mutable { compute(x, y, out); };
}

OutKernel square(Arguments a, at::Tensor out) {
  return [x = a[0].toTensor(), out]() mutable { at::cpu::pow_outf(x, 2, out); };
}

/// Below autograd: `_softmax(x, dim, half_to_float)`.
template <auto compute> OutKernel plain_softmax(Arguments a, at::Tensor out) {
  if (a[2].toBool())
    return nullptr;
  return [x = a[0].toTensor(), dim = a[1].toInt(), out]() mutable { compute(x, dim, false, out); };
}

template <auto compute> OutKernel softmax_backward(Arguments a, at::Tensor out) {
  return [grad = a[0].toTensor(), y = a[1].toTensor(), dim = a[2].toInt(),
          dtype = a[3].toScalarType(), out]() mutable { compute(grad, y, dim, dtype, out); };
}

OutKernel threshold_backward(Arguments a, at::Tensor out) {
  return [grad = a[0].toTensor(), x = a[1].toTensor(), threshold = a[2].toScalar(), out]() mutable {
    at::cpu::threshold_backward_outf(grad, x, threshold, out);
  };
}

OutKernel gelu_backward(Arguments a, at::Tensor out) {
  return [grad = a[0].toTensor(), x = a[1].toTensor(), how = a[2].toStringRef(), out]() mutable {
    at::cpu::gelu_backward_outf(grad, x, how, out);
  };
}

/// Of each value. The mean of all is another op inside.
OutKernel mse_loss(Arguments a, at::Tensor out) {
  if (a[2].toInt() != at::Reduction::None)
    return nullptr;
  return [x = a[0].toTensor(), y = a[1].toTensor(), out]() mutable {
    at::cpu::mse_loss_outf(x, y, at::Reduction::None, out);
  };
}

OutKernel mse_loss_backward(Arguments a, at::Tensor out) {
  return [grad = a[0].toTensor(), x = a[1].toTensor(), y = a[2].toTensor(), how = a[3].toInt(),
          out]() mutable { at::cpu::mse_loss_backward_outf(grad, x, y, how, out); };
}

bool is_real(c10::ScalarType dtype) {
  return has_kernels(dtype) || c10::isIntegralType(dtype, /*includeBool=*/true);
}

/// Another dtype: as copy_impl() of ATen/native/Copy.cpp.
OutKernel converted(Arguments a, at::Tensor out) {
  if (!is_real(a[0].toTensor().scalar_type()) || !is_real(out.scalar_type()))
    return nullptr;
  return [x = a[0].toTensor(), out]() mutable {
    auto iterator = at::TensorIteratorConfig()
                        .add_output(out)
                        .add_const_input(x)
                        .resize_outputs(false)
                        .check_all_same_dtype(false)
                        .build();
    at::native::copy_stub(c10::DeviceType::CPU, iterator, false);
  };
}

OutKernel rand(Arguments, at::Tensor out) {
  if (out.numel() == 0)
    return nullptr;
  return [out]() mutable {
    auto iterator = at::TensorIterator::borrowing_nullary_op(out);
    at::native::uniform_stub(c10::DeviceType::CPU, iterator, 0, 1, OwnDraws::generator());
  };
}

OutKernel randn(Arguments, at::Tensor out) {
  if (out.numel() == 0)
    return nullptr;
  return [out]() mutable {
    at::native::normal_stub(c10::DeviceType::CPU, out, 0, 1, OwnDraws::generator());
  };
}

OutKernel cat(Arguments a, at::Tensor out) {
  return [tensors = a[0].toTensorVector(), dim = a[1].toInt(), out]() mutable {
    at::cpu::cat_outf(at::ITensorListRef(tensors), dim, out);
  };
}

OutKernel layer_norm(Arguments a, at::Tensor out) {
  const at::Tensor x = a[0].toTensor();
  if (!x.is_contiguous() || !out.is_contiguous() || !a[2].isTensor() || !a[3].isTensor())
    return nullptr;
  const at::Tensor weight = a[2].toTensor(), bias = a[3].toTensor();
  const std::int64_t columns = weight.numel();
  if (!weight.is_contiguous() || !bias.is_contiguous() || columns == 0 || x.numel() == 0 ||
      weight.scalar_type() != x.scalar_type())
    return nullptr;
  const std::int64_t rows = x.numel() / columns;
  const auto statistics = [&] { return at::empty({rows}, x.options()); };
  return [x, weight, bias, rows, columns, eps = a[4].toDouble(), out, mean = statistics(),
          deviation = statistics()]() mutable {
    at::native::LayerNormKernel(c10::DeviceType::CPU, x, weight, bias, rows, columns, eps, &out,
                                &mean, &deviation);
  };
}

using Reduce = at::Tensor &(*)(const at::Tensor &, at::OptionalIntArrayRef, bool,
                               std::optional<at::ScalarType>, at::Tensor &);
constexpr Reduce kSum = at::cpu::sum_outf, kMean = at::cpu::mean_outf;

using Softmax = at::Tensor &(*)(const at::Tensor &, std::int64_t, bool, at::Tensor &);
constexpr Softmax kSoftmax = at::cpu::_softmax_outf, kLogSoftmax = at::cpu::_log_softmax_outf;
using Compare = at::Tensor &(*)(const at::Tensor &, const at::Tensor &, at::Tensor &);
using CompareNumber = at::Tensor &(*)(const at::Tensor &, const c10::Scalar &, at::Tensor &);

struct Row {
  std::string_view op;
  Bind bind;
};
constexpr std::array kRows{
    Row{"aten::mm", mm},
    Row{"aten::matmul", matmul},
    Row{"aten::bmm", bmm},
    Row{"aten::addmm", addmm},
    Row{"aten::linear", linear},
    Row{"aten::softmax.int", softmax},
    Row{"aten::log_softmax.int", log_softmax},
    Row{"aten::gelu", gelu},
    Row{"aten::silu", silu},
    Row{"aten::pow.Tensor_Scalar", power},
    Row{"aten::sum.dim_IntList", over_dimensions<kSum>},
    Row{"aten::mean.dim", over_dimensions<kMean>},
    Row{"aten::to.dtype", converted},
    Row{"aten::_to_copy", converted},
    Row{"aten::rand", rand},
    Row{"aten::randn", randn},
    Row{"aten::cat", cat},
    Row{"aten::layer_norm", layer_norm},
    Row{"aten::sum", over_all<kSum>},
    Row{"aten::mean", over_all<kMean>},
    Row{"aten::square", square},
    Row{"aten::_softmax", plain_softmax<kSoftmax>},
    Row{"aten::_log_softmax", plain_softmax<kLogSoftmax>},
    Row{"aten::_softmax_backward_data", softmax_backward<at::cpu::_softmax_backward_data_outf>},
    Row{"aten::_log_softmax_backward_data",
        softmax_backward<at::cpu::_log_softmax_backward_data_outf>},
    Row{"aten::threshold_backward", threshold_backward},
    Row{"aten::tanh_backward", of_two<at::cpu::tanh_backward_outf>},
    Row{"aten::sigmoid_backward", of_two<at::cpu::sigmoid_backward_outf>},
    Row{"aten::silu_backward", of_two<at::cpu::silu_backward_outf>},
    Row{"aten::gelu_backward", gelu_backward},
    Row{"aten::mse_loss", mse_loss},
    Row{"aten::mse_loss_backward", mse_loss_backward},
    Row{"aten::lt.Tensor", of_two<Compare(at::cpu::lt_outf)>},
    Row{"aten::lt.Scalar", of_number<CompareNumber(at::cpu::lt_outf)>},
    Row{"aten::le.Tensor", of_two<Compare(at::cpu::le_outf)>},
    Row{"aten::le.Scalar", of_number<CompareNumber(at::cpu::le_outf)>},
    Row{"aten::gt.Tensor", of_two<Compare(at::cpu::gt_outf)>},
    Row{"aten::gt.Scalar", of_number<CompareNumber(at::cpu::gt_outf)>},
    Row{"aten::ge.Tensor", of_two<Compare(at::cpu::ge_outf)>},
    Row{"aten::ge.Scalar", of_number<CompareNumber(at::cpu::ge_outf)>},
    Row{"aten::eq.Tensor", of_two<Compare(at::cpu::eq_outf)>},
    Row{"aten::eq.Scalar", of_number<CompareNumber(at::cpu::eq_outf)>},
    Row{"aten::ne.Tensor", of_two<Compare(at::cpu::ne_outf)>},
    Row{"aten::ne.Scalar", of_number<CompareNumber(at::cpu::ne_outf)>},
};

const Row *find_row(std::string_view op) {
  const auto *const found =
      std::find_if(kRows.begin(), kRows.end(), [op](const Row &row) { return row.op == op; });
  return found == kRows.end() ? nullptr : found;
}

} // namespace

bool has_out_kernel(std::string_view op) { return find_row(op) != nullptr; }

OutKernel bind_out_kernel(std::string_view op, Arguments arguments, const at::Tensor &result) {
  const Row *const row = find_row(op);
  return row ? row->bind(arguments, result) : nullptr;
}

} // namespace tracehost::tape
