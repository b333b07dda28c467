#include "report/row.h"

#include <array>

namespace tracehost::report {
namespace {

constexpr std::array kCounts = {
    &Row::calls,       &Row::hits,         &Row::traces,      &Row::inlined,    &Row::live,
    &Row::nanoseconds, &Row::validated,    &Row::unvalidated, &Row::mismatches, &Row::eager,
    &Row::failures,    &Row::rejected,     &Row::retraces,    &Row::captured,   &Row::uncaptured,
    &Row::dropped,     &Row::device_bytes, &Row::evicted};

} // namespace

Row &Row::operator+=(const Row &other) {
  for (const auto count : kCounts)
    this->*count += other.*count;
  for (const auto &[cause, count] : other.retraces_by)
    retraces_by[cause] += count;
  return *this;
}

Row &Row::operator-=(const Row &other) {
  for (const auto count : kCounts)
    this->*count -= other.*count;
  for (const auto &[cause, count] : other.retraces_by)
    retraces_by[cause] -= count;
  return *this;
}

} // namespace tracehost::report
