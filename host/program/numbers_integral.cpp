#include "program/number_families.h"

#include <cstdint>
#include <string>

/// Bits and shifts. They raise for floats.

namespace tracehost::numbers {
namespace {

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

constexpr NumberOp kIntegral[] = {
    {"and", 2, true, bit_and, kind_of_bits},     {"or", 2, true, bit_or, kind_of_bits},
    {"xor", 2, true, bit_xor, kind_of_bits},     {"invert", 1, true, invert, integer_of_one},
    {"lshift", 2, true, lshift, integer_of_two}, {"rshift", 2, true, rshift, integer_of_two},
};

} // namespace

std::span<const NumberOp> integral() { return kIntegral; }

} // namespace tracehost::numbers
