#pragma once

#include "report/declared.h"
#include "report/finding.h"

#include <cstddef>
#include <set>
#include <span>
#include <string>

namespace tracehost::report {

/// How many of the last `counted` of `records` another decorator would have saved.
///
/// A call is served by an earlier trace only if the two were seen to differ in nothing else while
/// both were live (TraceRecord::alike). So the numbers are never too high for what was recorded.
/// What a body would do with dynamic sizes (a comparison, int()) is not known.

/// With reduce_retracing=True, by tf.function's rule, where the Python numbers at the paths
/// `tensors` are passed as tensors.
std::size_t saved_by_reducing(std::span<const TraceRecord> records, std::size_t counted,
                              const std::set<std::string> &tensors = {});
/// With this input_signature.
std::size_t saved_by_declaring(std::span<const TraceRecord> records, std::size_t counted,
                               const Declared &declared);

} // namespace tracehost::report
