#include "region/ops.h"

#include "region/pieces.h"
#include "region/writer.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace tracehost::region {
namespace {

using Code = RegionCode;
using Operand = RegionOperand;

using Writer = RegionWriter;
using Write = Operand (*)(Writer &);

template <Code code> Operand unary(Writer &w) { return w.put(code, w.value(0)); }
template <Code code> Operand binary(Writer &w) { return w.put(code, w.value(0), w.value(1)); }

Operand plus(Writer &w, Operand a, Operand b, double alpha) {
  if (alpha == 1)
    return w.put(Code::add, a, b);
  if (alpha == -1)
    return w.put(Code::sub, a, b);
  // In the tail of a range eager has alpha * b in advance, rounded, where b is one value.
  if (w.is_one(b))
    throw NoRegionOp();
  return w.put(Code::fmadd, b, Operand::number(alpha), a);
}
Operand add(Writer &w) { return plus(w, w.value(0), w.value(1), w.number(2, 1)); }
Operand sub(Writer &w) { return plus(w, w.value(0), w.value(1), -w.number(2, 1)); }
Operand rsub(Writer &w) { return plus(w, w.value(1), w.value(0), -w.number(2, 1)); }

/// True division alone.
Operand div(Writer &w) {
  if (w.has(2))
    throw NoRegionOp();
  return binary<Code::div>(w);
}

Operand over_one(Writer &w, Operand a) { return w.put(Code::div, Operand::number(1), a); }
Operand reciprocal(Writer &w) { return over_one(w, w.value(0)); }
Operand rsqrt(Writer &w) { return over_one(w, w.put(Code::root, w.value(0))); }
Operand square(Writer &w) { return w.put(Code::mul, w.value(0), w.value(0)); }

/// The exponents that eager has code of their own for.
Operand power(Writer &w) {
  const double exponent = w.number(1);
  if (exponent == 2)
    return square(w);
  if (exponent == 3)
    return w.put(Code::mul, square(w), w.value(0));
  if (exponent == -1)
    return reciprocal(w);
  if (exponent == -2)
    return over_one(w, square(w));
  if (exponent == 0.5)
    return unary<Code::sqrt>(w);
  if (exponent == -0.5)
    return rsqrt(w);
  throw NoRegionOp();
}

Operand relu(Writer &w) { return w.put(Code::clamp_min, w.value(0), Operand::number(0)); }

/// Eager fills the result with NaN where a bound is NaN.
Operand clamp_by(Writer &w, bool has_min, std::size_t min, bool has_max, std::size_t max) {
  Operand result = w.value(0);
  if (!has_min && !has_max)
    throw NoRegionOp();
  if (has_min) {
    if (std::isnan(w.number(min)))
      throw NoRegionOp();
    result = w.put(Code::clamp_min, result, w.value(min));
  }
  if (has_max) {
    if (std::isnan(w.number(max)))
      throw NoRegionOp();
    result = w.put(Code::clamp_max, result, w.value(max));
  }
  return result;
}
Operand clamp(Writer &w) { return clamp_by(w, w.has(1), 1, w.has(2), 2); }
Operand clamp_min(Writer &w) { return clamp_by(w, true, 1, false, 0); }
Operand clamp_max(Writer &w) { return clamp_by(w, false, 0, true, 1); }
Operand hardtanh(Writer &w) { return clamp_by(w, true, 1, true, 2); }
Operand relu6(Writer &w) { return w.put(Code::clamp_max, relu(w), Operand::number(6)); }

Operand leaky_relu(Writer &w) {
  const Operand x = w.value(0), scaled = w.put(Code::mul, x, Operand::number(w.number(1, 0.01)));
  return w.put(Code::where, w.put(Code::gt, x, Operand::number(0)), x, scaled);
}

Operand threshold(Writer &w) {
  return w.put(Code::where, w.put(Code::le, w.value(0), w.value(1)), w.value(2), w.value(0));
}

Operand where(Writer &w) { return w.put(Code::where, w.value(0), w.value(1), w.value(2)); }

/// value * t1, where it is not t1.
Operand scaled(Writer &w) {
  const double value = w.number(3, 1);
  return value == 1 ? w.value(1) : w.put(Code::mul, w.value(1), Operand::number(value));
}
Operand addcmul(Writer &w) { return w.put(Code::fmadd, scaled(w), w.value(2), w.value(0)); }
Operand addcdiv(Writer &w) {
  return w.put(Code::add, w.value(0), w.put(Code::div, scaled(w), w.value(2)));
}

/// From the end that is nearer. At weight 1 the sign of a zero is another one in eager's tail,
/// which is also why there is no lerp by a tensor.
Operand lerp(Writer &w) {
  const double weight = w.rounded(w.number(2));
  if (weight == 1)
    throw NoRegionOp();
  const Operand distance = w.put(Code::sub, w.value(1), w.value(0));
  if (std::abs(weight) < 0.5)
    return w.put(Code::fmadd, distance, Operand::number(weight), w.value(0));
  return w.put(Code::fmadd, distance, Operand::number(w.rounded(weight - 1)), w.value(1));
}

/// 0 for a NaN, as eager.
Operand sign(Writer &w) {
  const Operand x = w.value(0), zero = Operand::number(0);
  const Operand below = w.put(Code::where, w.put(Code::lt, x, zero), Operand::number(-1), zero);
  return w.put(Code::where, w.put(Code::gt, x, zero), Operand::number(1), below);
}

/// clamp(x + 3, 0, 6)
Operand hard_step(Writer &w) {
  const Operand more = w.put(Code::add, w.value(0), Operand::number(3));
  return w.put(Code::clamp_max, w.put(Code::clamp_min, more, Operand::number(0)),
               Operand::number(6));
}
Operand hardsigmoid(Writer &w) { return w.put(Code::div, hard_step(w), Operand::number(6)); }
Operand hardswish(Writer &w) {
  return w.put(Code::div, w.put(Code::mul, w.value(0), hard_step(w)), Operand::number(6));
}

// Backward: of grad first, then of the op's input or result.
Operand threshold_backward(Writer &w) {
  return w.put(Code::where, w.put(Code::le, w.value(1), w.value(2)), Operand::number(0),
               w.value(0));
}
Operand leaky_relu_backward(Writer &w) {
  const Operand scaled = w.put(Code::mul, w.value(0), w.value(2));
  return w.put(Code::where, w.put(Code::gt, w.value(1), Operand::number(0)), w.value(0), scaled);
}
Operand sigmoid_backward(Writer &w) {
  const Operand rest = w.put(Code::sub, Operand::number(1), w.value(1));
  return w.put(Code::mul, w.put(Code::mul, w.value(0), rest), w.value(1));
}
Operand tanh_backward(Writer &w) {
  const Operand y = w.value(1);
  const Operand rest = w.put(Code::fmadd, w.put(Code::neg, y), y, Operand::number(1));
  return w.put(Code::mul, w.value(0), rest);
}

Operand gelu(Writer &w) {
  return w.put(w.text(1) == "tanh" ? Code::gelu_tanh : Code::gelu, w.value(0));
}

struct AtenOp {
  std::string_view name;
  Write write;
};

constexpr std::array kRegionOps{
    AtenOp{"aten::add.Tensor", add},
    AtenOp{"aten::add.Scalar", add},
    AtenOp{"aten::sub.Tensor", sub},
    AtenOp{"aten::sub.Scalar", sub},
    AtenOp{"aten::rsub.Tensor", rsub},
    AtenOp{"aten::rsub.Scalar", rsub},
    AtenOp{"aten::mul.Tensor", binary<Code::mul>},
    AtenOp{"aten::mul.Scalar", binary<Code::mul>},
    AtenOp{"aten::div.Tensor", div},
    AtenOp{"aten::div.Scalar", div},
    AtenOp{"aten::maximum", binary<Code::maximum>},
    AtenOp{"aten::minimum", binary<Code::minimum>},
    AtenOp{"aten::neg", unary<Code::neg>},
    AtenOp{"aten::abs", unary<Code::abs>},
    AtenOp{"aten::floor", unary<Code::floor>},
    AtenOp{"aten::ceil", unary<Code::ceil>},
    AtenOp{"aten::trunc", unary<Code::trunc>},
    AtenOp{"aten::round", unary<Code::round>},
    AtenOp{"aten::relu", relu},
    AtenOp{"aten::relu6", relu6},
    AtenOp{"aten::reciprocal", reciprocal},
    AtenOp{"aten::rsqrt", rsqrt},
    AtenOp{"aten::square", square},
    AtenOp{"aten::pow.Tensor_Scalar", power},
    AtenOp{"aten::clamp", clamp},
    AtenOp{"aten::clamp_min", clamp_min},
    AtenOp{"aten::clamp_max", clamp_max},
    AtenOp{"aten::hardtanh", hardtanh},
    AtenOp{"aten::leaky_relu", leaky_relu},
    AtenOp{"aten::threshold", threshold},
    AtenOp{"aten::sign", sign},
    AtenOp{"aten::hardsigmoid", hardsigmoid},
    AtenOp{"aten::hardswish", hardswish},
    AtenOp{"aten::threshold_backward", threshold_backward},
    AtenOp{"aten::leaky_relu_backward", leaky_relu_backward},
    AtenOp{"aten::sigmoid_backward", sigmoid_backward},
    AtenOp{"aten::tanh_backward", tanh_backward},
    AtenOp{"aten::lt.Tensor", binary<Code::lt>},
    AtenOp{"aten::lt.Scalar", binary<Code::lt>},
    AtenOp{"aten::le.Tensor", binary<Code::le>},
    AtenOp{"aten::le.Scalar", binary<Code::le>},
    AtenOp{"aten::gt.Tensor", binary<Code::gt>},
    AtenOp{"aten::gt.Scalar", binary<Code::gt>},
    AtenOp{"aten::ge.Tensor", binary<Code::ge>},
    AtenOp{"aten::ge.Scalar", binary<Code::ge>},
    AtenOp{"aten::eq.Tensor", binary<Code::eq>},
    AtenOp{"aten::eq.Scalar", binary<Code::eq>},
    AtenOp{"aten::ne.Tensor", binary<Code::ne>},
    AtenOp{"aten::ne.Scalar", binary<Code::ne>},
    AtenOp{"aten::where.self", where},
    AtenOp{"aten::where.ScalarOther", where},
    AtenOp{"aten::where.ScalarSelf", where},
    AtenOp{"aten::addcmul", addcmul},
    AtenOp{"aten::addcdiv", addcdiv},
    AtenOp{"aten::lerp.Scalar", lerp},
    AtenOp{"aten::sin", unary<Code::sin>},
    AtenOp{"aten::cos", unary<Code::cos>},
    AtenOp{"aten::tan", unary<Code::tan>},
    AtenOp{"aten::tanh", unary<Code::tanh>},
    AtenOp{"aten::exp", unary<Code::exp>},
    AtenOp{"aten::log", unary<Code::log>},
    AtenOp{"aten::sqrt", unary<Code::sqrt>},
    AtenOp{"aten::erf", unary<Code::erf>},
    AtenOp{"aten::sigmoid", unary<Code::sigmoid>},
    AtenOp{"aten::silu", unary<Code::silu>},
    AtenOp{"aten::log1p", unary<Code::log1p>},
    AtenOp{"aten::expm1", unary<Code::expm1>},
    AtenOp{"aten::atan", unary<Code::atan>},
    AtenOp{"aten::gelu", gelu},
};

} // namespace

std::optional<RegionOperand> add_to_region(RegionPlan &plan, std::string_view op,
                                           c10::ArrayRef<RegionArgument> arguments) {
  const auto *const found = std::find_if(kRegionOps.begin(), kRegionOps.end(),
                                         [&](const AtenOp &known) { return known.name == op; });
  if (found == kRegionOps.end())
    return std::nullopt;
  const std::size_t before = plan.ops.size();
  try {
    Writer writer(plan, arguments);
    const RegionOperand result = found->write(writer);
    for (std::size_t i = before; i < plan.ops.size(); ++i)
      if (!find_op_fault(plan, i).empty())
        throw NoRegionOp();
    return result;
  } catch (const NoRegionOp &) {
    plan.ops.resize(before);
    return std::nullopt;
  }
}

} // namespace tracehost::region
