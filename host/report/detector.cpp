#include "report/detector.h"

#include <atomic>

namespace tracehost::report {
namespace {
constexpr std::uint64_t window = 10;
std::atomic<std::uint64_t> limit{5};
constexpr int most_warnings = 2;
} // namespace

void set_retrace_limit(std::uint64_t traces) { limit.store(traces, std::memory_order_relaxed); }
std::uint64_t retrace_limit() { return limit.load(std::memory_order_relaxed); }

void Detector::hit(std::uint64_t calls) {
  if (calls == 0)
    return;
  if (buckets_.empty())
    buckets_.push_back(0);
  buckets_.back() += calls;
  total_ += calls;
}

std::optional<Detector::Due> Detector::traced() {
  ++total_;
  buckets_.push_back(1);
  while (total_ - buckets_.front() > window) {
    total_ -= buckets_.front();
    buckets_.pop_front();
  }
  const auto enough = retrace_limit();
  if (enough == 0 || buckets_.size() < enough)
    return std::nullopt;
  const bool shown = warnings_ < most_warnings;
  warnings_ += shown;
  return Due{buckets_.size(), total_, shown};
}

} // namespace tracehost::report
