#pragma once

#include "report/history.h"
#include "report/table.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What a user reads: the retrace warning and the table. Both are made from events and counters
/// only.

namespace tracehost::report {

/// A warning that is due: of retraces, or of the first eviction.
struct Warning {
  std::string
      text;  ///< several lines (docs/guides/retrace-warnings.md), without the category's name
  Site call; ///< to attribute it to: the caller's line, else the function's
};

/// Keeps, for each definition site, the detector's state and a bounded history of traces.
/// Safe from any thread. Holds no Python object. One for the process: `ledger()`.
class Ledger final : public Sink {
public:
  Ledger();
  ~Ledger() override;
  void created(std::shared_ptr<const Counters> function) override;
  void on(const TraceEvent &event) override;
  void on(const EvictEvent &event) override;
  void on(const FailEvent &event) override;
  void on(const MismatchEvent &event) override;
  void on(const GraphEvent &event) override;

  /// The oldest warning that is due for this Function's site; nullopt if none is. Each warning is
  /// returned once.
  std::optional<Warning> take_warning(const Counters &function);
  /// What happened, newest last, at most History::most_entries; of the Function with this
  /// Counters::number alone, if given.
  std::vector<HistoryEntry> history(std::optional<std::uint64_t> function = std::nullopt,
                                    bool graphs = false) const;
  /// What the Functions of each definition site did, by name. `advised`: with Row::advice.
  std::vector<Row> rows(bool advised = false) const;
  /// Of all Functions since the process began: reset() leaves them. As in Row.
  struct Totals {
    std::uint64_t traces = 0, retraces = 0, nanoseconds = 0;
  };
  Totals totals() const;
  /// The report table, one line a Function, costliest first; ends with a newline. Says so if empty.
  std::string table() const;
  /// Forgets counters' history, events and detectors (not caches).
  void reset();

private:
  struct State;
  std::unique_ptr<State> state_;
};

Ledger &ledger();

} // namespace tracehost::report
