#include "tracehost/metrics.h"

#include "report/ledger.h"
#include "report/metrics.h"

namespace tracehost {
inline namespace TRACEHOST_ABI {

std::string metrics_text() { return report::prometheus(report::ledger().rows()); }

} // namespace TRACEHOST_ABI
} // namespace tracehost
