#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tracehost::validate {

/// The option `validate=`.
struct Policy {
  enum class When : std::uint8_t { never, first, every };
  When when = When::first;
  std::uint64_t every = 0; ///< so many hits apart, the body is run again, too; 0: never

  // What a check may cost at most where it was not asked for expressly.
  static constexpr std::size_t kMostBytes = std::size_t{256} << 20;
  static constexpr std::chrono::seconds kMostTime{1}; ///< that the body's ops took
};

} // namespace tracehost::validate
