#include "program/number_families.h"

#include <cerrno>
#include <cmath>

/// math's functions that are libm's, with Python's errors: a nan of no nan is outside of the
/// domain, an infinity of finite numbers is too large.
///
/// These are the ones that bodies use. Of any other function the body needs the value of the number
/// (bindings/tracehost/autograph/run/calls.py).

namespace tracehost::numbers {
namespace {

/// Raises what libm says. Requires: errno is set.
void check_errno(double result) {
  if (errno == EDOM)
    raise_value_error("math domain error");
  // Set for results that are too small, too, which are none of Python's errors.
  if (errno == ERANGE && !(std::fabs(result) < 1.5))
    raise_overflow("math range error");
}

using OfOne = double (*)(double);

template <OfOne f> Number of_one(const NumberOp &, const Number *a) {
  const double x = a->as_real();
  errno = 0;
  const double result = f(x);
  if (!std::isfinite(result)) [[unlikely]] {
    if (std::isnan(result) && !std::isnan(x))
      raise_value_error("math domain error");
    if (std::isinf(result) && std::isfinite(x))
      raise_overflow("math range error");
  } else if (errno) [[unlikely]] {
    check_errno(result);
  }
  return Number::of(result);
}

/// Of an int only where it is positive.
Number log_of(const NumberOp &, const Number *a) {
  const double x = a->as_real();
  if (!(x > 0) && !std::isnan(x))
    raise_value_error("math domain error");
  return Number::of(std::log(x));
}

Number pow_of(const NumberOp &, const Number *a) {
  const double x = a[0].as_real(), y = a[1].as_real();
  errno = 0;
  const double result = std::pow(x, y);
  if (!std::isfinite(x) || !std::isfinite(y))
    return Number::of(result);
  if (std::isnan(result) || (std::isinf(result) && x == 0))
    raise_value_error("math domain error");
  if (std::isinf(result))
    raise_overflow("math range error");
  if (errno) [[unlikely]]
    check_errno(result);
  return Number::of(result);
}

template <bool (*f)(double)> Number asks(const NumberOp &, const Number *a) {
  return Number::of(f(a->as_real()));
}
Number radians(const NumberOp &, const Number *a) {
  return Number::of(a->as_real() * (M_PI / 180.0));
}

bool is_finite(double x) { return std::isfinite(x); }
bool is_nan(double x) { return std::isnan(x); }

constexpr NumberOp kAnalysis[] = {
    {"math_cos", 1, true, of_one<::cos>, always_real},
    {"math_exp", 1, true, of_one<::exp>, always_real},
    {"math_isfinite", 1, false, asks<is_finite>, always_boolean},
    {"math_isnan", 1, false, asks<is_nan>, always_boolean},
    {"math_log", 1, true, log_of, always_real},
    {"math_pow", 2, true, pow_of, always_real},
    {"math_radians", 1, false, radians, always_real},
    {"math_sin", 1, true, of_one<::sin>, always_real},
    {"math_sqrt", 1, true, of_one<::sqrt>, always_real},
    {"math_tan", 1, true, of_one<::tan>, always_real},
};

} // namespace

std::span<const NumberOp> analysis() { return kAnalysis; }

} // namespace tracehost::numbers
