#include "program/number_families.h"

#include <algorithm>
#include <cerrno>
#include <cmath>

/// math's functions that are libm's, with Python's errors: a nan of no nan is outside of the
/// domain, an infinity of finite numbers is too large, or outside where the function has a pole
/// there.

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
using OfTwo = double (*)(double, double);

enum class Infinite { too_large, pole };

template <OfOne f, Infinite infinite = Infinite::pole>
Number of_one(const NumberOp &, const Number *a) {
  const double x = a->as_real();
  errno = 0;
  const double result = f(x);
  if (!std::isfinite(result)) [[unlikely]] {
    if (std::isnan(result) && !std::isnan(x))
      raise_value_error("math domain error");
    if (std::isinf(result) && std::isfinite(x)) {
      if (infinite == Infinite::pole)
        raise_value_error("math domain error");
      raise_overflow("math range error");
    }
  } else if (errno) [[unlikely]] {
    check_errno(result);
  }
  return Number::of(result);
}

template <OfTwo f> Number of_two(const NumberOp &, const Number *a) {
  const double x = a[0].as_real(), y = a[1].as_real();
  errno = 0;
  const double result = f(x, y);
  if (std::isnan(result))
    errno = std::isnan(x) || std::isnan(y) ? 0 : EDOM;
  else if (std::isinf(result))
    errno = std::isfinite(x) && std::isfinite(y) ? ERANGE : 0;
  if (errno) [[unlikely]]
    check_errno(result);
  return Number::of(result);
}

/// Applies `f` without a test for errors.
template <OfOne f> Number plain(const NumberOp &, const Number *a) {
  return Number::of(f(a->as_real()));
}

double log1p_of(double x) { return x == 0 ? x : std::log1p(x); }
double degrees(double x) { return x * (180.0 / M_PI); }
double radians(double x) { return x * (M_PI / 180.0); }

/// The distance to the next float away from zero; of the largest, to the one before.
double ulp(double x) {
  constexpr double infinity = HUGE_VAL;
  if (!std::isfinite(x))
    return std::fabs(x);
  x = std::fabs(x);
  const double next = std::nextafter(x, infinity);
  return std::isinf(next) ? x - std::nextafter(x, -infinity) : next - x;
}

/// A logarithm: of an int only where it is positive.
template <OfOne f> double logarithm(const Number &a) {
  const double x = a.as_real();
  if (!(x > 0) && !std::isnan(x))
    raise_value_error("math domain error");
  return f(x);
}
template <OfOne f> Number log_of(const NumberOp &, const Number *a) {
  return Number::of(logarithm<f>(*a));
}

Number log_base(const NumberOp &, const Number *a) {
  const double above = logarithm<::log>(a[0]), below = logarithm<::log>(a[1]);
  if (below == 0)
    raise_zero_division("float division by zero");
  return Number::of(above / below);
}

double fmod_of(double x, double y) { return std::isinf(y) && std::isfinite(x) ? x : fmod(x, y); }

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

Number ldexp_of(const NumberOp &, const Number *a) {
  if (a[1].is_real())
    raise_type_error("Expected an int as second argument to ldexp.");
  const double x = a[0].as_real();
  if (x == 0 || !std::isfinite(x))
    return Number::of(x);
  // Beyond these every float overflows, or is 0.
  constexpr std::int64_t far = 100000;
  const double result = std::ldexp(x, static_cast<int>(std::clamp(a[1].integer, -far, far)));
  if (std::isinf(result))
    raise_overflow("math range error");
  return Number::of(result);
}

/// Python takes no float for the exponent.
Kind kind_of_ldexp(const NumberKind *k) {
  return k[1] == NumberKind::real ? Kind() : NumberKind::real;
}

Number nextafter_of(const NumberOp &, const Number *a) {
  return Number::of(std::nextafter(a[0].as_real(), a[1].as_real()));
}

template <bool (*f)(double)> Number asks(const NumberOp &, const Number *a) {
  return Number::of(f(a->as_real()));
}
bool is_finite(double x) { return std::isfinite(x); }
bool is_infinite(double x) { return std::isinf(x); }
bool is_nan(double x) { return std::isnan(x); }

Number isclose(const NumberOp &, const Number *a) {
  constexpr double relative = 1e-9;
  const double x = a[0].as_real(), y = a[1].as_real();
  if (x == y)
    return Number::of(true);
  if (std::isinf(x) || std::isinf(y))
    return Number::of(false);
  const double apart = std::fabs(y - x);
  return Number::of(apart <= std::fabs(relative * y) || apart <= std::fabs(relative * x));
}

constexpr auto kLarge = Infinite::too_large;

constexpr NumberOp kAnalysis[] = {
    {"math_acos", 1, true, of_one<::acos>, always_real},
    {"math_acosh", 1, true, of_one<::acosh>, always_real},
    {"math_asin", 1, true, of_one<::asin>, always_real},
    {"math_asinh", 1, false, of_one<::asinh>, always_real},
    {"math_atan", 1, false, of_one<::atan>, always_real},
    {"math_atan2", 2, false, of_two<::atan2>, always_real},
    {"math_atanh", 1, true, of_one<::atanh>, always_real},
    {"math_cbrt", 1, false, of_one<::cbrt>, always_real},
    {"math_copysign", 2, false, of_two<::copysign>, always_real},
    {"math_cos", 1, true, of_one<::cos>, always_real},
    {"math_cosh", 1, true, of_one<::cosh, kLarge>, always_real},
    {"math_degrees", 1, false, plain<degrees>, always_real},
    {"math_erf", 1, false, plain<::erf>, always_real},
    {"math_erfc", 1, false, plain<::erfc>, always_real},
    {"math_exp", 1, true, of_one<::exp, kLarge>, always_real},
    {"math_exp2", 1, true, of_one<::exp2, kLarge>, always_real},
    {"math_expm1", 1, true, of_one<::expm1, kLarge>, always_real},
    {"math_fabs", 1, false, of_one<::fabs>, always_real},
    {"math_fmod", 2, true, of_two<fmod_of>, always_real},
    {"math_isclose", 2, false, isclose, always_boolean},
    {"math_isfinite", 1, false, asks<is_finite>, always_boolean},
    {"math_isinf", 1, false, asks<is_infinite>, always_boolean},
    {"math_isnan", 1, false, asks<is_nan>, always_boolean},
    {"math_ldexp", 2, true, ldexp_of, kind_of_ldexp},
    {"math_log", 1, true, log_of<::log>, always_real},
    {"math_log_base", 2, true, log_base, always_real},
    {"math_log10", 1, true, log_of<::log10>, always_real},
    {"math_log1p", 1, true, of_one<log1p_of>, always_real},
    {"math_log2", 1, true, log_of<::log2>, always_real},
    {"math_nextafter", 2, false, nextafter_of, always_real},
    {"math_pow", 2, true, pow_of, always_real},
    {"math_radians", 1, false, plain<radians>, always_real},
    {"math_remainder", 2, true, of_two<::remainder>, always_real},
    {"math_sin", 1, true, of_one<::sin>, always_real},
    {"math_sinh", 1, true, of_one<::sinh, kLarge>, always_real},
    {"math_sqrt", 1, true, of_one<::sqrt>, always_real},
    {"math_tan", 1, true, of_one<::tan>, always_real},
    {"math_tanh", 1, false, of_one<::tanh>, always_real},
    {"math_ulp", 1, false, plain<ulp>, always_real},
};

} // namespace

std::span<const NumberOp> analysis() { return kAnalysis; }

} // namespace tracehost::numbers
