#pragma once

#include "report/detector.h"
#include "report/finding.h"
#include "report/ledger.h"
#include "report/remedy.h"
#include "report/table.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tracehost::report {

/// What is known of one definition site: its Functions' counters, detector and latest traces.
/// Functions that are gone leave their sums only, so its size does not grow with calls, traces or
/// decorations. Not safe from several threads.
class SiteLog {
public:
  static constexpr std::size_t most_records = 32;

  void add(std::shared_ptr<const Counters> function);
  TraceRecord::Origin on(const TraceEvent &event);
  std::uint64_t caused() const { return caused_; } ///< as Row::retraces
  void on(const EvictEvent &event);
  void on(const FailEvent &event) { failures_ += !event.went_on && !event.rejected; }

  std::size_t limit() const { return limit_; }
  /// The oldest of those that are due.
  std::optional<Warning> take_warning();
  /// Nothing to show if no call was made since the last reset.
  /// `advised`: with Row::advice, which takes milliseconds.
  std::optional<Row> row(bool advised = false);
  void reset();
  /// Whether all its Functions are gone.
  bool dead();

  std::size_t records() const { return records_.size(); }
  std::size_t functions() const { return functions_.size(); }

private:
  struct Entry {
    std::shared_ptr<const Counters> counters;
    Row base;                 ///< its counts at the last reset; of `live`, none
    std::uint64_t folded = 0; ///< hits that the detector has counted
    bool traced = false;
  };
  Entry &entry(const std::shared_ptr<const Counters> &function);
  void sweep();
  void fold();
  TraceRecord record(const TraceEvent &event, bool traced_before);
  Account account(std::span<const TraceRecord> known, std::uint64_t traces,
                  std::uint64_t calls) const;

  Identity identity_; ///< of the latest Function
  std::vector<Entry> functions_;
  std::size_t sweep_at_ = 16;
  Row retired_;                ///< counts of Functions that are gone
  std::uint64_t unfolded_ = 0; ///< their hits that the detector has not counted
  Detector detector_;
  std::deque<TraceRecord> records_;
  std::deque<std::size_t> signatures_;             ///< hashes, one for each of records_
  std::uint64_t caused_ = 0;                       ///< Row::retraces
  std::map<std::string, std::uint64_t> caused_by_; ///< Row::retraces_by
  std::uint64_t traces_ = 0, retraces_ = 0, nanoseconds_ = 0;
  std::uint64_t failures_ = 0; ///< misses that threw
  std::size_t limit_ = 64;
  std::deque<Warning> due_;
  bool told_of_eviction_ = false;
};

} // namespace tracehost::report
