#pragma once

#include "report/history.h"
#include "report/row.h"
#include "report/warning.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// What a user reads is made from events and counters only. Here are the facts; the words of
/// warnings and tables are Python's (tracehost/_reports/words).

namespace tracehost::report {

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

  /// The oldest warning that is due for this Function's site; nullopt if none is. Each one is
  /// returned once.
  std::optional<Due> take_due(const Counters &function);
  /// The text of one that was due, for the history.
  void note_warning(const Counters &function, const Site &call, const std::string &text);
  /// What happened, newest last, at most History::most_entries; of the Function with this
  /// Counters::number alone, if given.
  std::vector<HistoryEntry> history(std::optional<std::uint64_t> function = std::nullopt,
                                    bool graphs = false) const;
  /// What the Functions of each definition site did, by name.
  std::vector<Row> rows() const;
  /// Of all Functions since the process began: reset() leaves them. As in Row.
  struct Totals {
    std::uint64_t traces = 0, retraces = 0, nanoseconds = 0;
  };
  Totals totals() const;
  /// Forgets counters' history, events and detectors (not caches).
  void reset();

private:
  struct State;
  std::unique_ptr<State> state_;
};

Ledger &ledger();

} // namespace tracehost::report
