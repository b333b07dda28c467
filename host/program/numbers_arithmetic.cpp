#include "program/number_families.h"

#include <bit>
#include <cerrno>
#include <cmath>
#include <limits>

/// The operators that floats and ints share. A float beside an int makes the int a float.

namespace tracehost::numbers {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

bool one_is_real(const Number *a) { return a[0].is_real() || a[1].is_real(); }

Number add(const NumberOp &op, const Number *a) {
  if (one_is_real(a))
    return Number::of(a[0].as_real() + a[1].as_real());
  std::int64_t sum;
  if (__builtin_add_overflow(a[0].integer, a[1].integer, &sum))
    leave_int64(op, a);
  return Number::of(sum);
}

Number sub(const NumberOp &op, const Number *a) {
  if (one_is_real(a))
    return Number::of(a[0].as_real() - a[1].as_real());
  std::int64_t difference;
  if (__builtin_sub_overflow(a[0].integer, a[1].integer, &difference))
    leave_int64(op, a);
  return Number::of(difference);
}

Number mul(const NumberOp &op, const Number *a) {
  if (one_is_real(a))
    return Number::of(a[0].as_real() * a[1].as_real());
  std::int64_t product;
  if (__builtin_mul_overflow(a[0].integer, a[1].integer, &product))
    leave_int64(op, a);
  return Number::of(product);
}

/// a / b of two ints, rounded once. Doubles of large ones are rounded already.
double divide(std::int64_t a, std::int64_t b) {
  constexpr std::uint64_t exact = std::uint64_t{1} << 53;
  const std::uint64_t above = magnitude(a), below = magnitude(b);
  if (above == 0 || (above <= exact && below <= exact))
    return static_cast<double>(a) / static_cast<double>(b);
  // 64 bits of the quotient, the last of which is also set if there is a remainder. They are more
  // than enough for the one rounding to 53 bits.
  const int up = std::countl_zero(above) + 64;
  const Wide scaled = Wide{above} << up;
  const Wide quotient = scaled / below;
  const int down = 64 - std::countl_zero(static_cast<std::uint64_t>(quotient >> 64));
  const auto kept = static_cast<std::uint64_t>(quotient >> down);
  const bool rest = scaled % below != 0 || (Wide{kept} << down) != quotient;
  const auto rounded = static_cast<double>(kept | (rest ? 1 : 0));
  return std::ldexp((a < 0) == (b < 0) ? rounded : -rounded, down - up);
}

Number truediv(const NumberOp &, const Number *a) {
  if (one_is_real(a)) {
    const double below = a[1].as_real();
    if (below == 0)
      raise_zero_division("float division by zero");
    return Number::of(a[0].as_real() / below);
  }
  if (a[1].integer == 0)
    raise_zero_division("division by zero");
  return Number::of(divide(a[0].integer, a[1].integer));
}

/// The remainder has b's sign.
double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0)
    return std::copysign(0.0, b);
  if ((b < 0) != (rest < 0))
    rest += b;
  return rest;
}

double float_floordiv(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0))
    quotient -= 1.0;
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  // The quotient is whole but for rounding.
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1.0 : whole;
}

Number floordiv(const NumberOp &op, const Number *a) {
  if (one_is_real(a)) {
    if (a[1].as_real() == 0)
      raise_zero_division("float floor division by zero");
    return Number::of(float_floordiv(a[0].as_real(), a[1].as_real()));
  }
  const std::int64_t above = a[0].integer, below = a[1].integer;
  if (below == 0)
    raise_zero_division("integer division or modulo by zero");
  if (above == kLeast && below == -1)
    leave_int64(op, a);
  const std::int64_t cut = above / below;
  return Number::of(above % below != 0 && (above < 0) != (below < 0) ? cut - 1 : cut);
}

Number mod(const NumberOp &, const Number *a) {
  if (one_is_real(a)) {
    if (a[1].as_real() == 0)
      raise_zero_division("float modulo");
    return Number::of(float_mod(a[0].as_real(), a[1].as_real()));
  }
  const std::int64_t below = a[1].integer;
  if (below == 0)
    raise_zero_division("integer modulo by zero");
  if (below == -1) // the machine's division traps for the least int
    return Number::of(std::int64_t{0});
  const std::int64_t rest = a[0].integer % below;
  return Number::of(rest != 0 && (rest < 0) != (below < 0) ? rest + below : rest);
}

bool is_odd(double value) { return std::fmod(std::fabs(value), 2.0) == 1.0; }

/// The cases that C's pow decides otherwise, or with another error, come first.
double float_pow(const NumberOp &op, const Number *a) {
  double base = a[0].as_real();
  const double power = a[1].as_real();
  if (power == 0 || base == 1.0)
    return 1.0;
  if (std::isnan(base) || std::isnan(power))
    return std::isnan(base) ? base : power;
  if (std::isinf(power)) {
    base = std::fabs(base);
    if (base == 1.0)
      return 1.0;
    return (power > 0) == (base > 1.0) ? std::fabs(power) : 0.0;
  }
  if (std::isinf(base)) {
    const double size = power > 0 ? HUGE_VAL : 0.0;
    return is_odd(power) ? std::copysign(size, base) : size;
  }
  if (base == 0) {
    if (power < 0)
      raise_zero_division("0.0 cannot be raised to a negative power");
    return is_odd(power) ? base : 0.0;
  }
  bool negate = false;
  if (base < 0) {
    if (power != std::floor(power)) {
      if (std::isinf(std::pow(-base, power)))
        raise_overflow("complex exponentiation");
      leave(op, a, "a complex number");
    }
    base = -base;
    negate = is_odd(power);
  }
  if (base == 1.0)
    return negate ? -1.0 : 1.0;
  errno = 0;
  const double result = std::pow(base, power);
  // libm reports results that are too small, too: those that became 0 are none of Python's errors.
  if (std::isinf(result) || (errno != 0 && result != 0))
    raise_overflow("(34, 'Numerical result out of range')");
  return negate ? -result : result;
}

std::int64_t integer_pow(const NumberOp &op, const Number *a) {
  std::int64_t base = a[0].integer, result = 1;
  for (std::int64_t left = a[1].integer;;) {
    if (left & 1)
      if (__builtin_mul_overflow(result, base, &result))
        leave_int64(op, a);
    left >>= 1;
    if (left == 0)
      return result;
    if (__builtin_mul_overflow(base, base, &base))
      leave_int64(op, a);
  }
}

Number pow(const NumberOp &op, const Number *a) {
  if (one_is_real(a) || a[1].integer < 0)
    return Number::of(float_pow(op, a));
  return Number::of(integer_pow(op, a));
}

Kind kind_of_pow(const NumberKind *k) {
  if (wider(k) == NumberKind::real)
    return NumberKind::real;
  // A negative int makes a float.
  return k[1] == NumberKind::boolean ? Kind(NumberKind::integer) : Kind();
}

Number neg(const NumberOp &op, const Number *a) {
  if (a->is_real())
    return Number::of(-a->real);
  if (a->integer == kLeast)
    leave_int64(op, a);
  return Number::of(-a->integer);
}

Number abs(const NumberOp &op, const Number *a) {
  if (a->is_real())
    return Number::of(std::fabs(a->real));
  return a->integer < 0 ? neg(op, a) : Number::of(a->integer);
}

constexpr NumberOp kArithmetic[] = {
    {"add", 2, true, add, wider},           {"sub", 2, true, sub, wider},
    {"mul", 2, true, mul, wider},           {"truediv", 2, true, truediv, always_real},
    {"floordiv", 2, true, floordiv, wider}, {"mod", 2, true, mod, wider},
    {"pow", 2, true, pow, kind_of_pow},     {"neg", 1, true, neg, wider_of_one},
    {"abs", 1, true, abs, wider_of_one},
};

} // namespace

std::span<const NumberOp> arithmetic() { return kArithmetic; }

} // namespace tracehost::numbers
