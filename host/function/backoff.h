#pragma once

#include "signature/signature.h"

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace tracehost {

/// Signatures whose traces have stopped to pay (docs/guides/retrace-warnings.md).
///
/// After 8 traces in a row without a hit, the next 32 calls with that Signature run the body as it
/// is. The call after them is traced again. If no hit follows, 64 calls run the body, and so on up
/// to 1,024; a hit starts from the beginning. Traces with another reason do not count: other
/// arguments, an outcome of a read, an eviction.
///
///     T T T T T T T T  32 bodies  T  64 bodies  T h h h ...
class Backoff {
public:
  static constexpr std::uint32_t kTraces = 8, kFirst = 32, kMost = 1024;

  /// Whether a call that no graph serves runs the body as it is. Counts the call.
  bool skips(const Signature &signature);
  /// How many calls with `signature` run the body as it is from now on. Counts nothing.
  std::uint32_t left(const Signature &signature) const;
  /// Counts a trace for a call with `signature`. `hits`: of the Function until now. Returns how
  /// many calls skip from now on; 0: none.
  std::uint32_t traced(const Signature &signature, std::uint64_t hits);
  void clear();

private:
  struct Row {
    std::uint64_t hits = 0;    ///< of the Function, at the last trace
    std::uint32_t traces = 0;  ///< since the last hit
    std::uint32_t skipped = 0; ///< calls that the last time skipped, or skips
    std::uint32_t left = 0;    ///< of those
  };
  static constexpr std::size_t kSignatures = 1024;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, Row> rows_;
  std::size_t skipping_ = 0; ///< rows with calls left; where there are none, a miss hashes nothing
};

} // namespace tracehost
