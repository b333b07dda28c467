#pragma once

#include "report/record.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tracehost::report {

/// What the Functions of one definition site did, together.
struct Row {
  std::string function{};             ///< `step (train.py:12)`
  std::string qualified{}, archive{}; ///< as in Identity
  Site definition{};
  std::uint64_t site = 0; ///< Identity::site_key
  std::uint64_t calls = 0, hits = 0, traces = 0, inlined = 0, live = 0, nanoseconds = 0;
  std::uint64_t retraces = 0; ///< traces that calls made and that have a cause
  std::map<std::string, std::uint64_t> retraces_by{};           ///< the same by cause_label()
  std::uint64_t evicted = 0;                                    ///< graphs that left the cache
  std::uint64_t validated = 0, unvalidated = 0, mismatches = 0; ///< as in Counters
  /// Calls without a graph; those that threw, in a graph or at a miss; those with a SignatureError.
  std::uint64_t eager = 0, failures = 0, rejected = 0;
  std::uint64_t captured = 0, uncaptured = 0, dropped = 0; ///< as in Counters
  std::uint64_t device_bytes = 0;                          ///< of CUDA graphs now
  Account account{};

  Row &operator+=(const Row &other); ///< the counts
  Row &operator-=(const Row &other);
};

} // namespace tracehost::report
