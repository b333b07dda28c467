#pragma once

#include "report/row.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tracehost::report {

/// Counters in the Prometheus text format (version 0.0.4). A label is a Function's name and place,
/// and of one of an archive the start of the archive's hash. Where there are more than `most`,
/// those with the fewest calls are summed as `other`.
///
///     tracehost_calls_total{function="step (train.py:12)",result="hit"} 95
///     tracehost_retraces_total{function="step (train.py:12)",cause="shape"} 4
std::string prometheus(std::vector<Row> rows, std::size_t most = 100);

} // namespace tracehost::report
