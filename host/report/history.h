#pragma once

#include "report/record.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace tracehost::report {

/// What happened, once, to a Function: for monitors and for `tracehost.events()`.
struct HistoryEntry {
  enum class Kind {
    trace,
    warn,
    evict,
    fail,
    mismatch,
    capture,
    no_capture,
    drop,
    tape,
    no_tape,
    drop_tape
  };
  Kind kind = Kind::trace;
  double time = 0;            ///< seconds since the epoch
  std::uint64_t function = 0; ///< Counters::number
  std::uint64_t site = 0;     ///< Identity::site_key
  std::string name;           ///< the Function's
  Site definition;
  Site call;
  std::string signature; ///< traced or evicted
  std::string qualified; ///< the Function's
  std::string lock;      ///< trace, fail, mismatch: call_text(); empty: no trace was begun
  std::vector<std::string>
      causes;       ///< why it was traced, a sentence each; empty for the first trace
  std::string text; ///< the warning's; the error's; mismatch: what differs, and where;
                    ///< no_capture, drop, no_tape, drop_tape: why; tape: as in runs_by
  std::vector<std::string> notes; ///< dimensions that stayed exact, checks that failed
  std::uint64_t nanoseconds = 0;  ///< trace
  std::uint32_t ops = 0;          ///< trace; capture, tape: that it runs
  std::int64_t bytes = 0;         ///< capture, drop: of the device; tape: planned
  std::uint64_t hits = 0;         ///< evict, mismatch: in its life
  bool dynamic = false;           ///< trace: some dimensions are dynamic
  bool requested = false;         ///< trace: not made by a call
};
const char *name(HistoryEntry::Kind kind); ///< "trace", "warn" ...

/// At most `most_text` bytes of a text, and `...`.
std::string shortened(const std::string &text);
/// The entries of events. Texts but those of warnings are cut at `most_text` bytes.
inline constexpr std::size_t most_text = 1000;
HistoryEntry entry_of(const TraceEvent &event, const TraceRecord &record, std::size_t limit);
HistoryEntry entry_of(const EvictEvent &event);
HistoryEntry entry_of(const FailEvent &event);
HistoryEntry entry_of(const MismatchEvent &event);
HistoryEntry entry_of(const GraphEvent &event);
/// A warning that was shown.
HistoryEntry entry_of(const Counters &function, const Site &call, const std::string &text);

/// The latest entries of the process, newest last; those of GraphEvents apart. Not safe from
/// several threads.
class History {
public:
  static constexpr std::size_t most_entries = 1000;

  void add(HistoryEntry entry);

  /// Those of one Function, or all. `graphs`: those of tapes and CUDA graphs instead of the others.
  std::vector<HistoryEntry> entries(std::optional<std::uint64_t> function, bool graphs) const;
  void clear();

private:
  std::deque<HistoryEntry> entries_; ///< but those of GraphEvents
  std::deque<HistoryEntry> graphs_;
};

} // namespace tracehost::report
