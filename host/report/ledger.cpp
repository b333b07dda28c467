#include "report/ledger.h"

#include "report/detector.h"
#include "report/event_stream.h"
#include "report/site_log.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace tracehost::report {
namespace {
constexpr std::size_t most_sites = 1024;
}

struct Ledger::State {
  struct Site {
    SiteLog log;
    std::uint64_t used = 0; ///< stamp of the last event
  };
  mutable std::mutex mutex;
  std::unordered_map<std::uint64_t, Site> sites; ///< by site_key
  std::uint64_t stamp = 0;
  Totals totals;
  std::size_t forget_at = most_sites; ///< more where more are alive
  History history;
  std::vector<Row> forgotten; ///< at most one: the sums of sites dropped

  SiteLog &site(const Counters &function) {
    const auto [entry, is_new] = sites.try_emplace(function.identity.site_key);
    entry->second.used = ++stamp;
    SiteLog &log = entry->second.log;
    if (is_new && sites.size() > forget_at)
      forget(function.identity.site_key);
    return log;
  }

  /// Drops the oldest sites whose Functions are gone, some at a time: code made by exec() in a loop
  /// has a new site each time.
  void forget(std::uint64_t keep) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> dead; // stamp, key
    for (auto &[key, site] : sites)
      if (key != keep && site.log.dead())
        dead.emplace_back(site.used, key);
    std::sort(dead.begin(), dead.end());
    dead.resize(std::min(dead.size(), most_sites / 4));
    for (const auto &[used, key] : dead) {
      add_forgotten(sites.at(key).log.row());
      sites.erase(key);
    }
    forget_at = std::max(most_sites, sites.size() + sites.size() / 4);
  }

  template <class Event> void count(const Event &event) {
    const std::lock_guard lock(mutex);
    site(*event.function).on(event);
  }

  void remember(HistoryEntry entry) {
    if (writes_events())
      write_event(line_of(entry));
    const std::lock_guard lock(mutex);
    history.add(std::move(entry));
  }

  void add_forgotten(const std::optional<Row> &row) {
    if (!row)
      return;
    if (forgotten.empty())
      forgotten.push_back({.function = "earlier Functions"});
    forgotten.front() += *row;
  }
};

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

void Ledger::created(std::shared_ptr<const Counters> function) {
  const std::lock_guard lock(state_->mutex);
  SiteLog &log = state_->site(*function);
  log.add(std::move(function));
}

/// Texts are made without the lock.
void Ledger::on(const TraceEvent &event) {
  RecordRef record;
  std::size_t limit = 0;
  {
    const std::lock_guard lock(state_->mutex);
    SiteLog &site = state_->site(*event.function);
    const std::uint64_t before = site.caused();
    record = site.on(event);
    state_->totals.retraces += site.caused() - before;
    ++state_->totals.traces;
    state_->totals.nanoseconds += event.nanoseconds;
    limit = site.limit();
  }
  state_->remember(entry_of(event, *record, limit));
}

void Ledger::on(const EvictEvent &event) {
  state_->count(event);
  state_->remember(entry_of(event));
}

void Ledger::on(const FailEvent &event) {
  state_->count(event);
  state_->remember(entry_of(event));
}

void Ledger::on(const MismatchEvent &event) { state_->remember(entry_of(event)); }

void Ledger::on(const GraphEvent &event) { state_->remember(entry_of(event)); }

std::optional<Due> Ledger::take_due(const Counters &function) {
  std::optional<Due> due;
  {
    const std::lock_guard lock(state_->mutex);
    const auto site = state_->sites.find(function.identity.site_key);
    if (site == state_->sites.end())
      return std::nullopt;
    due = site->second.log.take_due();
  }
  if (retrace_limit() == 0) // those of evictions, too
    return std::nullopt;
  return due;
}

void Ledger::note_warning(const Counters &function, const Site &call, const std::string &text) {
  state_->remember(entry_of(function, call, text));
}

std::vector<HistoryEntry> Ledger::history(std::optional<std::uint64_t> function,
                                          bool graphs) const {
  const std::lock_guard lock(state_->mutex);
  return state_->history.entries(function, graphs);
}

std::vector<Row> Ledger::rows() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Row> rows = state_->forgotten;
  for (auto &[key, site] : state_->sites)
    if (auto row = site.log.row())
      rows.push_back(std::move(*row));
  std::sort(rows.begin(), rows.end(),
            [](const Row &a, const Row &b) { return a.function < b.function; });
  return rows;
}

Ledger::Totals Ledger::totals() const {
  const std::lock_guard lock(state_->mutex);
  return state_->totals;
}

void Ledger::reset() {
  const std::lock_guard lock(state_->mutex);
  state_->forgotten.clear();
  state_->history.clear();
  for (auto &[key, site] : state_->sites)
    site.log.reset();
  for (auto site = state_->sites.begin(); site != state_->sites.end();)
    site = site->second.log.dead() ? state_->sites.erase(site) : std::next(site);
}

/// Never destroyed: a Function that outlives main() may still write to it.
Ledger &ledger() {
  static auto *const only = new Ledger;
  return *only;
}

} // namespace tracehost::report
