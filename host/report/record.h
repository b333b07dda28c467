#pragma once

#include "event/event.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tracehost::report {

/// What is kept of a TraceEvent. Immutable once a site has it, so copies of a site's records are
/// copies of pointers.
struct TraceRecord {
  static constexpr std::size_t most_differences = 32;
  enum class Origin {
    initial, ///< the first trace of its definition site
    again,   ///< the first of a further Function of the site
    cleared, ///< the Function had traced before, and clear() was called since
    emptied, ///< the Function had traced before, and had nothing left to compare with
    differs, ///< as `differences` say
  };
  std::vector<Difference> differences; ///< at most most_differences
  Site call;
  Origin origin = Origin::differs;
  bool complete = true; ///< `differences` are all
  bool evicted = false; ///< an evicted Specialization would have served
  std::string once{};   ///< TraceEvent::once
  /// Why no graph of the trace before was left to compare with: why it served its own call alone.
  /// Empty: it served later calls, or calls with another signature are compared.
  std::string was_once{};
  bool seen = false; ///< the site had traced this signature before
  // For replays, as in TraceEvent:
  std::uint64_t function = 0; ///< Counters::number
  std::uint64_t number = 0;
  Sketch request;
  std::vector<std::uint64_t> alike;
  std::vector<std::string> exchangeable;
  std::vector<SpecializedSize> specialized;
};
using RecordRef = std::shared_ptr<const TraceRecord>;

/// What is known of the Functions of one definition site, of which words are made: the causes, and
/// what to write.
struct Account {
  Identity function;
  std::uint64_t nanoseconds = 0;    ///< spent on traces so far
  std::size_t limit = 64;           ///< live specializations
  std::size_t signatures = 0;       ///< distinct ones traced so far
  std::vector<RecordRef> records{}; ///< the latest traces, oldest first
};

const char *name(TraceRecord::Origin origin); ///< "initial", "again" ...
/// Whether the trace is a retrace: no first trace of its site.
bool has_cause(const TraceRecord &record);
/// Its first cause as a word for metrics: `shape`, `value`, `decorated_again`. Requires:
/// has_cause().
const char *cause_label(const TraceRecord &record);
/// One for each cause of the trace; a number that is no cause of its own (a value, a size) is not
/// part of it.
std::vector<std::string> cause_keys(const TraceRecord &record);

} // namespace tracehost::report
