#include "report/site_log.h"

#include "report/message.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tracehost::report {

Totals Totals::of(const Counters &counters) {
  const auto read = [](const auto &counter) { return counter.load(std::memory_order_relaxed); };
  return {read(counters.hits),        read(counters.traces),    read(counters.inlined),
          read(counters.eager),       read(counters.live),      read(counters.trace_ns),
          read(counters.failed),      read(counters.rejected),  read(counters.validated),
          read(counters.unvalidated), read(counters.mismatches)};
}

Totals &Totals::operator+=(const Totals &other) {
  hits += other.hits;
  traces += other.traces;
  inlined += other.inlined;
  eager += other.eager;
  live += other.live;
  nanoseconds += other.nanoseconds;
  failed += other.failed;
  rejected += other.rejected;
  validated += other.validated;
  unvalidated += other.unvalidated;
  mismatches += other.mismatches;
  return *this;
}

Totals Totals::since(const Totals &base) const {
  return {hits - base.hits,
          traces - base.traces,
          inlined - base.inlined,
          eager - base.eager,
          live,
          nanoseconds - base.nanoseconds,
          failed - base.failed,
          rejected - base.rejected,
          validated - base.validated,
          unvalidated - base.unvalidated,
          mismatches - base.mismatches};
}

void SiteLog::add(std::shared_ptr<const Counters> function) {
  identity_ = function->identity;
  if (functions_.size() >= sweep_at_) {
    sweep();
    sweep_at_ = std::max<std::size_t>(16, 2 * functions_.size());
  }
  functions_.push_back({std::move(function), {}, 0, false});
}

SiteLog::Entry &SiteLog::entry(const std::shared_ptr<const Counters> &function) {
  const auto known = std::find_if(functions_.begin(), functions_.end(),
                                  [&](const Entry &entry) { return entry.counters == function; });
  if (known != functions_.end())
    return *known;
  add(function);
  return functions_.back();
}

/// Drops the counters of Functions that no longer exist, and keeps their sums.
void SiteLog::sweep() {
  std::erase_if(functions_, [this](const Entry &entry) {
    if (entry.counters.use_count() > 1)
      return false;
    Totals sums = Totals::of(*entry.counters).since(entry.base);
    sums.live = 0;
    retired_ += sums;
    unfolded_ += entry.counters->hits.load(std::memory_order_relaxed) - entry.folded;
    return true;
  });
}

void SiteLog::fold() {
  std::uint64_t hits = std::exchange(unfolded_, 0);
  for (Entry &entry : functions_) {
    const auto now = entry.counters->hits.load(std::memory_order_relaxed);
    hits += now - std::exchange(entry.folded, now);
  }
  detector_.hit(hits);
}

TraceRecord SiteLog::record(const TraceEvent &event, bool traced_before) {
  using Origin = TraceRecord::Origin;
  TraceRecord record;
  record.call = event.call;
  record.evicted = event.was_evicted;
  record.origin = !event.first    ? Origin::differs
                  : traced_before ? Origin::emptied
                  : traces_ > 0   ? Origin::again
                                  : Origin::initial;
  record.complete = event.differences.size() <= TraceRecord::most_differences;
  const auto kept = std::min(event.differences.size(), TraceRecord::most_differences);
  record.function = event.function->number;
  record.number = event.number;
  record.request = event.request;
  record.alike = event.alike;
  record.specialized = event.specialized;
  record.differences.assign(event.differences.begin(),
                            event.differences.begin() + static_cast<std::ptrdiff_t>(kept));
  return record;
}

TraceRecord::Origin SiteLog::on(const TraceEvent &event) {
  Entry &function = entry(event.function);
  identity_ = event.function->identity;
  TraceRecord made = record(event, function.traced);
  const auto origin = made.origin;
  function.traced = true;
  ++traces_;
  retraces_ += event.was_evicted;
  nanoseconds_ += event.nanoseconds;
  if (!event.counted)
    return origin;

  fold();
  const auto signature = std::hash<std::string>()(event.signature);
  made.seen = std::find(signatures_.begin(), signatures_.end(), signature) != signatures_.end();
  records_.push_back(std::move(made));
  signatures_.push_back(signature);
  if (records_.size() > most_records) {
    records_.pop_front();
    signatures_.pop_front();
  }
  const auto due = detector_.traced();
  if (!due)
    return origin;
  due_.push_back(retraces(*due, event.call));
  return origin;
}

Warning SiteLog::retraces(const Detector::Due &due, const Site &call) const {
  const std::vector<TraceRecord> all(records_.begin(), records_.end());
  const std::span<const TraceRecord> known(all);
  const std::size_t size = std::min<std::size_t>(due.traces, known.size());
  return {message({.function = identity_,
                   .traces = due.traces,
                   .calls = due.calls,
                   .nanoseconds = nanoseconds_,
                   .window = known.last(size),
                   .earlier = known.first(known.size() - size),
                   .limit = limit_,
                   .signatures = static_cast<std::size_t>(traces_ - retraces_)}),
          call};
}

void SiteLog::on(const EvictEvent &event) {
  limit_ = event.limit;
  if (event.dead || told_of_eviction_ || records_.empty())
    return;
  told_of_eviction_ = true;
  const std::vector<TraceRecord> all(records_.begin(), records_.end());
  due_.push_back({eviction({.function = identity_,
                            .traces = traces_,
                            .calls = traces_,
                            .nanoseconds = nanoseconds_,
                            .window = all,
                            .earlier = {},
                            .limit = limit_,
                            .signatures = static_cast<std::size_t>(traces_ - retraces_)},
                           event.signature),
                  event.call});
}

std::optional<Warning> SiteLog::take_warning() {
  if (due_.empty())
    return std::nullopt;
  Warning oldest = std::move(due_.front());
  due_.pop_front();
  // C++ called: no line of Python did.
  if (oldest.call.file.empty())
    oldest.call = identity_.definition;
  return oldest;
}

std::optional<Row> SiteLog::row() {
  sweep();
  Totals sums = retired_;
  for (const Entry &entry : functions_)
    sums += Totals::of(*entry.counters).since(entry.base);
  Row row{.function = identity_.name + " (" + text(identity_.definition) + ")",
          .archive = identity_.archive,
          .calls = sums.hits + sums.traces + sums.eager + failures_ + sums.failed + sums.rejected,
          .hits = sums.hits,
          .traces = sums.traces,
          .inlined = sums.inlined,
          .live = sums.live,
          .nanoseconds = sums.nanoseconds,
          .validated = sums.validated,
          .unvalidated = sums.unvalidated,
          .mismatches = sums.mismatches,
          .eager = sums.eager,
          .failures = failures_ + sums.failed,
          .rejected = sums.rejected,
          .cause = {}};
  if (row.calls == 0 && row.inlined == 0)
    return std::nullopt;
  const std::vector<TraceRecord> latest(records_.begin(), records_.end());
  if (const auto found = findings(latest); !found.empty())
    row.cause = brief(found.front());
  return row;
}

void SiteLog::reset() {
  sweep();
  for (Entry &entry : functions_) {
    entry.base = Totals::of(*entry.counters);
    entry.folded = entry.base.hits;
  }
  retired_ = {};
  unfolded_ = traces_ = retraces_ = failures_ = nanoseconds_ = 0;
  detector_ = {};
  records_.clear();
  signatures_.clear();
  due_.clear();
  told_of_eviction_ = false;
}

bool SiteLog::dead() {
  sweep();
  return functions_.empty();
}

} // namespace tracehost::report
