#pragma once

#include "tracehost/export.h"

#include <string>

namespace tracehost {
inline namespace TRACEHOST_ABI {

/// Counters of all functions of the process in the Prometheus text format, to be served as
/// `/metrics`. One label, the function; where there are many, the less used are summed as `other`.
///
///     tracehost_calls_total{function="predict (digits.thz)",result="hit"} 1042
TRACEHOST_API std::string metrics_text();

} // namespace TRACEHOST_ABI
} // namespace tracehost
