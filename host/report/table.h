#pragma once

#include "event/event.h"

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
  std::string cause{};                                     ///< of most of the traces; may be empty
  std::string advice{}; ///< causes_and_fixes() of its latest traces; empty unless it was asked for

  Row &operator+=(const Row &other); ///< the counts
  Row &operator-=(const Row &other);
};

/// Aligned plain text with a header and a total, costliest first; ends with a newline.
///
///     function            calls  hits  traces  inlined  live  hit rate  trace ms  main cause
///     step (train.py:12)    100    95       5        0     5    95.0 %      41.2  'lr' value
///     total                 100    95       5        0     5    95.0 %      41.2
/// A line behind it counts the validations of graphs, if one graph was wrong:
///
///     validation: 5 checked, 1 not checked, 1 wrong
///
/// Another one counts CUDA graphs, if one was captured or rejected:
///
///     CUDA graphs: 3 captured, 1 not captured, 1 dropped, 2.5 MiB of device memory
std::string table(std::vector<Row> rows);

} // namespace tracehost::report
