#include "report/detector.h"

namespace tracehost::report {
namespace {
constexpr std::uint64_t window = 10;
constexpr std::size_t threshold = 5;
constexpr int most_warnings = 2;
} // namespace

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
  if (warnings_ >= most_warnings || buckets_.size() < threshold)
    return std::nullopt;
  ++warnings_;
  return Due{buckets_.size(), total_};
}

} // namespace tracehost::report
