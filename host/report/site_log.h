#pragma once

#include "report/detector.h"
#include "report/row.h"
#include "report/warning.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tracehost::report {

/// What is known of one definition site: its Functions' counters, detector and latest traces.
/// Functions that are gone leave their sums only, so its size does not grow with calls, traces or
/// decorations. Not safe from several threads.
class SiteLog {
public:
  static constexpr std::size_t most_records = 32;
  static constexpr std::size_t most_news = 16; ///< of Due::Kind::news

  void add(std::shared_ptr<const Counters> function);
  RecordRef on(const TraceEvent &event);
  std::uint64_t caused() const { return caused_; } ///< as Row::retraces
  void on(const EvictEvent &event);
  void on(const FailEvent &event) { failures_ += !event.went_on && !event.rejected; }

  std::size_t limit() const { return limit_; }
  /// The oldest of those that are due.
  std::optional<Due> take_due();
  /// Nothing to show if no call was made since the last reset.
  std::optional<Row> row();
  void reset();
  /// Whether all its Functions are gone.
  bool dead();

  std::size_t records() const { return records_.size(); }
  std::size_t functions() const { return functions_.size(); }

private:
  struct Entry {
    std::shared_ptr<const Counters> counters;
    Row base{};                ///< its counts at the last reset; of `live`, none
    std::uint64_t folded = 0;  ///< hits that the detector has counted
    std::uint64_t cleared = 0; ///< Counters::cleared at the last trace
    std::string once{};        ///< of the last trace
    bool traced = false;
  };
  Entry &entry(const std::shared_ptr<const Counters> &function);
  void sweep();
  void fold();
  TraceRecord record(const TraceEvent &event, Entry &function);
  void detect(const TraceEvent &event, const TraceRecord &made);
  Account account() const;

  Identity identity_; ///< of the latest Function
  std::vector<Entry> functions_;
  std::size_t sweep_at_ = 16;
  Row retired_;                ///< counts of Functions that are gone
  std::uint64_t unfolded_ = 0; ///< their hits that the detector has not counted
  Detector detector_;
  std::deque<RecordRef> records_;
  std::deque<std::size_t> signatures_;             ///< hashes, one for each of records_
  std::uint64_t caused_ = 0;                       ///< Row::retraces
  std::map<std::string, std::uint64_t> caused_by_; ///< Row::retraces_by
  std::uint64_t traces_ = 0, retraces_ = 0, nanoseconds_ = 0;
  std::uint64_t failures_ = 0; ///< misses that threw
  std::size_t limit_ = 64;
  std::deque<Due> due_;
  bool told_of_eviction_ = false;
  std::optional<Site> first_warned_; ///< the call of the first warning
  std::set<std::string> named_;      ///< cause_keys() of what the warnings have named
  std::size_t news_ = 0;             ///< how many Due::Kind::news there were
};

} // namespace tracehost::report
