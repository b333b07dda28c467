#pragma once

#include <cstdint>
#include <optional>

namespace tracehost::trace {

/// Rounds down. Requires: `b` is not 0.
inline std::int64_t quotient_down(std::int64_t a, std::int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Nullopt where the result has more than 64 bits.
inline std::optional<std::int64_t> times(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

inline std::optional<std::int64_t> plus(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::nullopt : std::optional(result);
}

} // namespace tracehost::trace
