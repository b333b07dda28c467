#pragma once

#include "report/declared.h"
#include "report/finding.h"

#include <cstddef>
#include <set>
#include <span>
#include <string>

namespace tracehost::report {

/// Goes through recorded traces in order and counts those that another decorator would have saved.
/// A call is served by an earlier trace only if the two were seen to differ in nothing else while
/// both were live (TraceRecord::alike). So the numbers are never too high for what was recorded.
/// What a body would do with dynamic sizes (a comparison, int()) is not known.
class Replay {
public:
  /// Counts among the last `counted` of `records`.
  Replay(std::span<const TraceRecord> records, std::size_t counted);

  /// Traces that reduce_retracing=True saves, by tf.function's rule, where the
  /// Python numbers at the paths `tensors` are passed as tensors.
  std::size_t reduced(const std::set<std::string> &tensors = {}) const;
  /// Traces that this input_signature saves.
  std::size_t declared(const Declared &declared) const;

private:
  std::span<const TraceRecord> records_;
  std::size_t counted_;
};

} // namespace tracehost::report
