#include "program/number_families.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

/// Bits, shifts, and math's functions of ints. They raise for floats.

namespace tracehost::numbers {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

const char *type_name(const Number &a) {
  return a.is_real() ? "float" : a.is_boolean() ? "bool" : "int";
}

void check_integers(const Number *a, const char *symbol) {
  if (a[0].is_real() || a[1].is_real()) [[unlikely]]
    raise_type_error(std::string("unsupported operand type(s) for ") + symbol + ": '" +
                     type_name(a[0]) + "' and '" + type_name(a[1]) + "'");
}

/// Of bools a bool.
Number bits_of(const Number *a, std::int64_t bits) {
  return a[0].is_boolean() && a[1].is_boolean() ? Number::of(bits != 0) : Number::of(bits);
}

Number bit_and(const NumberOp &, const Number *a) {
  check_integers(a, "&");
  return bits_of(a, a[0].integer & a[1].integer);
}
Number bit_or(const NumberOp &, const Number *a) {
  check_integers(a, "|");
  return bits_of(a, a[0].integer | a[1].integer);
}
Number bit_xor(const NumberOp &, const Number *a) {
  check_integers(a, "^");
  return bits_of(a, a[0].integer ^ a[1].integer);
}
Number invert(const NumberOp &, const Number *a) {
  if (a->is_real())
    raise_type_error("bad operand type for unary ~: 'float'");
  return Number::of(~a->integer);
}

Number lshift(const NumberOp &op, const Number *a) {
  check_integers(a, "<<");
  const std::int64_t value = a[0].integer, by = a[1].integer;
  if (by < 0)
    raise_value_error("negative shift count");
  if (value == 0)
    return Number::of(value);
  if (by > 63)
    leave_int64(op, a);
  const auto shifted = static_cast<std::int64_t>(static_cast<std::uint64_t>(value) << by);
  if (shifted >> by != value)
    leave_int64(op, a);
  return Number::of(shifted);
}

Number rshift(const NumberOp &, const Number *a) {
  check_integers(a, ">>");
  const std::int64_t by = a[1].integer;
  if (by < 0)
    raise_value_error("negative shift count");
  return Number::of(a[0].integer >> (by > 63 ? 63 : by));
}

Kind kind_of_bits(const NumberKind *k) {
  return k[0] == NumberKind::boolean && k[1] == NumberKind::boolean ? NumberKind::boolean
                                                                    : integer_of_two(k);
}

Number checked(const NumberOp &op, const Number *a, Wide value) {
  if (value > static_cast<std::uint64_t>(kMost))
    leave_int64(op, a);
  return Number::of(static_cast<std::int64_t>(value));
}

void need_integers(const NumberOp &op, const Number *a) {
  if (a[0].is_real() || (op.arity == 2 && a[1].is_real())) [[unlikely]]
    raise_no_integer();
}

Number gcd(const NumberOp &op, const Number *a) {
  need_integers(op, a);
  return checked(op, a, std::gcd(magnitude(a[0].integer), magnitude(a[1].integer)));
}

Number lcm(const NumberOp &op, const Number *a) {
  need_integers(op, a);
  const std::uint64_t one = magnitude(a[0].integer), other = magnitude(a[1].integer);
  if (one == 0 || other == 0)
    return Number::of(std::int64_t{0});
  return checked(op, a, Wide{one / std::gcd(one, other)} * other);
}

Number factorial(const NumberOp &op, const Number *a) {
  need_integers(op, a);
  if (a->integer < 0)
    raise_value_error("factorial() not defined for negative values");
  if (a->integer > 20)
    leave_int64(op, a);
  std::int64_t product = 1;
  for (std::int64_t i = 2; i <= a->integer; ++i)
    product *= i;
  return Number::of(product);
}

void need_counts(const NumberOp &op, const Number *a) {
  need_integers(op, a);
  if (a[0].integer < 0)
    raise_value_error("n must be a non-negative integer");
  if (a[1].integer < 0)
    raise_value_error("k must be a non-negative integer");
}

/// n * (n - 1) * ...: past int64 after 21 factors at the latest.
Number perm(const NumberOp &op, const Number *a) {
  need_counts(op, a);
  const std::int64_t n = a[0].integer, k = a[1].integer;
  if (k > n)
    return Number::of(std::int64_t{0});
  std::int64_t product = 1;
  for (std::int64_t i = 0; i < k; ++i)
    if (__builtin_mul_overflow(product, n - i, &product))
      leave_int64(op, a);
  return Number::of(product);
}

/// Each step's product is a binomial coefficient; they grow up to the middle, so that the first one
/// past int64 decides.
Number comb(const NumberOp &op, const Number *a) {
  need_counts(op, a);
  const std::int64_t n = a[0].integer;
  if (a[1].integer > n)
    return Number::of(std::int64_t{0});
  const std::int64_t k = std::min(a[1].integer, n - a[1].integer);
  Wide found = 1;
  for (std::int64_t i = 0; i < k; ++i) {
    found = found * static_cast<std::uint64_t>(n - i) / static_cast<std::uint64_t>(i + 1);
    if (found > static_cast<std::uint64_t>(kMost))
      leave_int64(op, a);
  }
  return checked(op, a, found);
}

Number isqrt(const NumberOp &op, const Number *a) {
  need_integers(op, a);
  if (a->integer < 0)
    raise_value_error("isqrt() argument must be nonnegative");
  const auto n = static_cast<std::uint64_t>(a->integer);
  // A double's root is off by one at most.
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root * root > n)
    --root;
  while ((root + 1) * (root + 1) <= n)
    ++root;
  return Number::of(static_cast<std::int64_t>(root));
}

constexpr NumberOp kIntegral[] = {
    {"and", 2, true, bit_and, kind_of_bits},
    {"or", 2, true, bit_or, kind_of_bits},
    {"xor", 2, true, bit_xor, kind_of_bits},
    {"invert", 1, true, invert, integer_of_one},
    {"lshift", 2, true, lshift, integer_of_two},
    {"rshift", 2, true, rshift, integer_of_two},
    {"math_gcd", 2, true, gcd, integer_of_two},
    {"math_lcm", 2, true, lcm, integer_of_two},
    {"math_factorial", 1, true, factorial, integer_of_one},
    {"math_perm", 2, true, perm, integer_of_two},
    {"math_comb", 2, true, comb, integer_of_two},
    {"math_isqrt", 1, true, isqrt, integer_of_one},
};

} // namespace

std::span<const NumberOp> integral() { return kIntegral; }

} // namespace tracehost::numbers
