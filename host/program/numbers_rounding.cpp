#include "program/number_families.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

/// Conversions, and all that rounds. Digits of decimals are exact: std::to_chars writes as many as
/// are asked for, rounded once and half to even, and std::from_chars reads the nearest double. Both
/// know no locale.

namespace tracehost::numbers {
namespace {

Number to_int(const NumberOp &op, const Number *a) {
  return a->is_real() ? integer_of(op, a, std::trunc(a->real)) : Number::of(a->integer);
}
Number to_float(const NumberOp &, const Number *a) { return Number::of(a->as_real()); }
Number floor(const NumberOp &op, const Number *a) {
  return a->is_real() ? integer_of(op, a, std::floor(a->real)) : Number::of(a->integer);
}
Number ceil(const NumberOp &op, const Number *a) {
  return a->is_real() ? integer_of(op, a, std::ceil(a->real)) : Number::of(a->integer);
}

/// Half to even.
Number round(const NumberOp &op, const Number *a) {
  if (!a->is_real())
    return Number::of(a->integer);
  double rounded = std::round(a->real);
  if (std::fabs(a->real - rounded) == 0.5)
    rounded = 2.0 * std::round(a->real / 2.0);
  return integer_of(op, a, rounded);
}

/// To a multiple of 10 ** places, half to even.
Number round_integer(const NumberOp &op, const Number *a, std::int64_t places) {
  if (places > 19) // half of 10 ** 20 is more than any int64
    return Number::of(std::int64_t{0});
  __int128 unit = 1;
  for (std::int64_t i = 0; i < places; ++i)
    unit *= 10;
  const __int128 value = a->integer;
  __int128 rest = value % unit;
  if (rest < 0)
    rest += unit;
  __int128 rounded = value - rest;
  const __int128 twice = 2 * rest;
  if (twice > unit || (twice == unit && rounded / unit % 2 != 0))
    rounded += unit;
  if (rounded > std::numeric_limits<std::int64_t>::max() ||
      rounded < std::numeric_limits<std::int64_t>::min())
    leave_int64(op, a);
  return Number::of(static_cast<std::int64_t>(rounded));
}

/// The double that a decimal names; infinity where none is that large.
double read_decimal(const char *first, const char *last) {
  double value = 0;
  const auto read = std::from_chars(first, last, value);
  return read.ec == std::errc() ? value : std::numeric_limits<double>::infinity();
}

/// Rounds a finite `value` to `digits` decimals.
double round_decimals(double value, int digits) {
  char text[800]; // 309 digits, a point, 323 decimals
  const auto end =
      std::to_chars(text, text + sizeof text, value, std::chars_format::fixed, digits).ptr;
  return read_decimal(text, end);
}

/// Rounds a finite `value` to a multiple of 10 to the power of `places`.
double round_tens(double value, int places) {
  const double whole = std::trunc(std::fabs(value));
  const bool fraction = whole != std::fabs(value);
  char text[400];
  const char *end = std::to_chars(text, text + sizeof text, whole, std::chars_format::fixed, 0).ptr;
  const auto length = end - text;
  if (places > length)
    return std::copysign(0.0, value);
  std::string kept = "0" + std::string(text, static_cast<std::size_t>(length - places));
  const char *dropped = end - places;
  const bool beyond_half =
      fraction || std::any_of(dropped + 1, end, [](char c) { return c != '0'; });
  const bool odd = (kept.back() - '0') % 2 != 0;
  if (*dropped > '5' || (*dropped == '5' && (beyond_half || odd))) {
    auto digit = kept.rbegin();
    for (; *digit == '9'; ++digit)
      *digit = '0';
    ++*digit;
  }
  kept += "e" + std::to_string(places);
  return std::copysign(read_decimal(kept.data(), kept.data() + kept.size()), value);
}

/// round(x, n)
Number round_to(const NumberOp &op, const Number *a) {
  if (a[1].is_real())
    raise_no_integer();
  const std::int64_t digits = a[1].integer;
  if (!a->is_real())
    return digits >= 0 ? Number::of(a->integer)
                       : round_integer(op, a, -std::max<std::int64_t>(digits, -1000));
  // Past these no double has a digit.
  constexpr std::int64_t most = 323, least = -308;
  if (!std::isfinite(a->real) || digits > most)
    return *a;
  if (digits < least)
    return Number::of(0.0 * a->real);
  const double rounded = digits >= 0 ? round_decimals(a->real, static_cast<int>(digits))
                                     : round_tens(a->real, static_cast<int>(-digits));
  if (std::isinf(rounded))
    raise_overflow("rounded value too large to represent");
  return Number::of(rounded);
}

Kind kind_of_round_to(const NumberKind *k) {
  return k[1] == NumberKind::real ? Kind() : wider_of_one(k);
}

constexpr NumberOp kRounding[] = {
    {"int", 1, true, to_int, always_integer},  {"float", 1, false, to_float, always_real},
    {"round", 1, true, round, always_integer}, {"round_to", 2, true, round_to, kind_of_round_to},
    {"floor", 1, true, floor, always_integer}, {"ceil", 1, true, ceil, always_integer},
};

} // namespace

std::span<const NumberOp> rounding() { return kRounding; }

} // namespace tracehost::numbers
