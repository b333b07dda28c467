#include "report/site_log.h"

#include "report/message.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace tracehost::report {

namespace {

Row counts(const Counters &counters) {
  const auto read = [](const auto &counter) { return counter.load(std::memory_order_relaxed); };
  Row row{.function = {},
          .hits = read(counters.hits),
          .traces = read(counters.traces),
          .inlined = read(counters.inlined),
          .live = read(counters.live),
          .nanoseconds = read(counters.trace_ns),
          .evicted = read(counters.evicted),
          .validated = read(counters.validated),
          .unvalidated = read(counters.unvalidated),
          .mismatches = read(counters.mismatches),
          .eager = read(counters.eager),
          .failures = read(counters.failed),
          .rejected = read(counters.rejected),
          .captured = read(counters.captured),
          .uncaptured = read(counters.uncaptured),
          .dropped = read(counters.dropped),
          .device_bytes = static_cast<std::uint64_t>(read(counters.device_bytes))};
  row.calls = row.hits + row.traces + row.eager + row.failures + row.rejected;
  return row;
}

} // namespace

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
    retired_ += counts(*entry.counters);
    retired_ -= entry.base;
    retired_.live = 0;
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
  record.once = event.once;
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
  if (const auto found = findings({&made, 1}); !found.empty()) {
    ++caused_;
    ++caused_by_[cause_label(found.front())];
  }

  fold();
  const auto signature = std::hash<std::string>()(event.signature);
  const auto last = std::find(signatures_.rbegin(), signatures_.rend(), signature);
  made.seen = last != signatures_.rend();
  if (made.seen)
    made.was_once = records_[static_cast<std::size_t>(signatures_.rend() - last) - 1].once;
  records_.push_back(std::move(made));
  signatures_.push_back(signature);
  if (records_.size() > most_records) {
    records_.pop_front();
    signatures_.pop_front();
  }
  const auto due = detector_.traced();
  if (!due)
    return origin;
  const std::vector<TraceRecord> all(records_.begin(), records_.end());
  due_.push_back({message(account(all, due->traces, due->calls)), event.call});
  return origin;
}

Account SiteLog::account(std::span<const TraceRecord> known, std::uint64_t traces,
                         std::uint64_t calls) const {
  return {.function = identity_,
          .traces = traces,
          .calls = calls,
          .nanoseconds = nanoseconds_,
          .known = known,
          .limit = limit_,
          .signatures = static_cast<std::size_t>(traces_ - retraces_)};
}

void SiteLog::on(const EvictEvent &event) {
  limit_ = event.limit;
  if (event.dead || told_of_eviction_ || records_.empty())
    return;
  told_of_eviction_ = true;
  const std::vector<TraceRecord> all(records_.begin(), records_.end());
  due_.push_back({eviction(account(all, traces_, traces_), event.signature), event.call});
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

std::optional<Row> SiteLog::row(bool advised) {
  sweep();
  Row row = retired_;
  for (const Entry &entry : functions_) {
    row += counts(*entry.counters);
    row -= entry.base;
  }
  row.function = identity_.name + " (" + text(identity_.definition) + ")";
  row.archive = identity_.archive;
  row.qualified = identity_.qualified;
  row.definition = identity_.definition;
  row.site = identity_.site_key;
  row.calls += failures_;
  row.retraces = caused_;
  row.retraces_by = caused_by_;
  row.failures += failures_;
  if (row.calls == 0 && row.inlined == 0)
    return std::nullopt;
  const std::vector<TraceRecord> latest(records_.begin(), records_.end());
  if (const auto found = findings(latest); !found.empty())
    row.cause = brief(found.front());
  if (advised && !row.cause.empty())
    row.advice = causes_and_fixes(account(latest, latest.size(), row.calls));
  return row;
}

void SiteLog::reset() {
  sweep();
  for (Entry &entry : functions_) {
    entry.base = counts(*entry.counters);
    entry.base.live = entry.base.device_bytes = 0;
    entry.folded = entry.base.hits;
  }
  retired_ = {};
  unfolded_ = traces_ = retraces_ = caused_ = failures_ = nanoseconds_ = 0;
  caused_by_.clear();
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
