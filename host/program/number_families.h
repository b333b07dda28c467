#pragma once

#include "program/numbers.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

/// What the files of number ops share. Each family is a table in its own file, and numbers.cpp
/// joins them.

namespace tracehost::numbers {

std::span<const NumberOp> arithmetic(); ///< + - * / // % ** and signs
std::span<const NumberOp> integral();   ///< bits, shifts
std::span<const NumberOp> comparing();  ///< == <, truth, min and max
std::span<const NumberOp> rounding();   ///< conversions, round, floor
std::span<const NumberOp> analysis();   ///< math's functions of floats

// Errors: what Python raises, with 3.11's texts.
[[noreturn]] void raise_value_error(const char *text);
[[noreturn]] void raise_type_error(const std::string &text);
[[noreturn]] void raise_overflow(const char *text);
[[noreturn]] void raise_zero_division(const char *text);
[[noreturn]] void raise_no_integer(); ///< a float where an int has to be
/// Throws LeavesNumbers. `what`: "an int past 64 bits", "a complex number"
[[noreturn]] void leave(const NumberOp &op, const Number *arguments, const char *what);
[[noreturn]] void leave_int64(const NumberOp &op, const Number *arguments);

/// int() of a float whose fraction is cut already.
Number integer_of(const NumberOp &op, const Number *arguments, double whole);
/// -1, 0, 1; 2 where one is nan. Exact for an int with a float.
int compare(const Number &a, const Number &b);

/// Without a sign, of the least int too.
inline std::uint64_t magnitude(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  return value < 0 ? 0 - bits : bits;
}

using Wide = unsigned __int128; ///< of a product of two

// Rules for the kind of a result.
using Kind = std::optional<NumberKind>;
inline Kind always_boolean(const NumberKind *) { return NumberKind::boolean; }
inline Kind always_integer(const NumberKind *) { return NumberKind::integer; }
inline Kind always_real(const NumberKind *) { return NumberKind::real; }
/// That of `+`: a float if one is, else an int.
inline Kind wider(const NumberKind *k) {
  return k[0] == NumberKind::real || k[1] == NumberKind::real ? NumberKind::real
                                                              : NumberKind::integer;
}
inline Kind wider_of_one(const NumberKind *k) {
  return k[0] == NumberKind::real ? NumberKind::real : NumberKind::integer;
}
/// Ints only: a float raises.
inline Kind integer_of_one(const NumberKind *k) {
  return k[0] == NumberKind::real ? Kind() : NumberKind::integer;
}
inline Kind integer_of_two(const NumberKind *k) {
  return k[0] == NumberKind::real || k[1] == NumberKind::real ? Kind() : NumberKind::integer;
}

} // namespace tracehost::numbers
