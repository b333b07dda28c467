#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace tracehost::report {

/// How many traces within the last 10 calls are too many, for all Functions; 0: no retrace warning
/// is ever due. 5 as long as nothing is said.
void set_retrace_limit(std::uint64_t traces);
std::uint64_t retrace_limit();

/// tf.function's rule for one definition site: warn when 5 traces fall within the last 10 calls, at
/// most twice. One bucket a trace: it and the calls that followed without one.
///
/// The window is in whole buckets, so "the last 10" may be more: T, 22 hits, 4 T warns "5 of 27".
class Detector {
public:
  struct Due {
    std::uint64_t traces, calls; ///< "`traces` out of the last `calls` calls"
    bool shown = true;           ///< false: the two warnings have been
    bool operator==(const Due &) const = default;
  };
  /// `calls` calls that did not trace; before the trace that follows them is counted.
  void hit(std::uint64_t calls = 1);
  /// A call that traced: the warning that is due because of it, if any. Beyond the two warnings it
  /// is one that is not shown.
  std::optional<Due> traced();

private:
  std::deque<std::uint64_t> buckets_;
  std::uint64_t total_ = 0; ///< sum of buckets_
  int warnings_ = 0;
};

} // namespace tracehost::report
