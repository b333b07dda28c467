#pragma once

#include "tracehost/export.h"

#include <string>

namespace tracehost {
inline namespace TRACEHOST_ABI {

/// Counters of all functions of the process in the Prometheus text format, to be served as
/// `/metrics`. Labels: the function with its file, the start of an archive's hash, and the result;
/// where there are many, the less used are summed as `other`.
///
///     tracehost_calls_total{function="predict (digits.thz)",archive="1a2b3c4d",result="hit"} 1042
///
/// Results: `hit` (a graph served the call), `trace`, `eager` (the body ran), `failed` (the graph
/// or the body threw), `rejected` (a SignatureError). Retraces of Python's Functions have a `cause`
/// instead; docs/operations/serving.md lists them.
TRACEHOST_API std::string metrics_text();

} // namespace TRACEHOST_ABI
} // namespace tracehost
