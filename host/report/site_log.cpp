#include "report/site_log.h"

#include <algorithm>
#include <functional>
#include <iterator>
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

std::set<std::string> to_set(std::vector<std::string> keys) {
  return {std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end())};
}

} // namespace

void SiteLog::add(std::shared_ptr<const Counters> function) {
  identity_ = function->identity;
  if (functions_.size() >= sweep_at_) {
    sweep();
    sweep_at_ = std::max<std::size_t>(16, 2 * functions_.size());
  }
  functions_.push_back({.counters = std::move(function)});
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

TraceRecord SiteLog::record(const TraceEvent &event, Entry &function) {
  using Origin = TraceRecord::Origin;
  const auto cleared = event.function->cleared.load(std::memory_order_relaxed);
  const bool was_cleared = cleared != std::exchange(function.cleared, cleared);
  const std::string before = std::exchange(function.once, event.once);
  TraceRecord record;
  record.call = event.call;
  record.evicted = event.was_evicted;
  record.once = event.once;
  record.origin = !event.first       ? Origin::differs
                  : !function.traced ? traces_ > 0 ? Origin::again : Origin::initial
                  : was_cleared      ? Origin::cleared
                                     : Origin::emptied;
  if (record.origin == Origin::emptied ||
      (record.origin == Origin::differs && event.differences.empty()))
    record.was_once = before;
  record.complete = event.differences.size() <= TraceRecord::most_differences;
  const auto kept = std::min(event.differences.size(), TraceRecord::most_differences);
  record.function = event.function->number;
  record.number = event.number;
  record.request = event.request;
  record.alike = event.alike;
  record.exchangeable = event.exchangeable;
  record.specialized = event.specialized;
  record.differences.assign(event.differences.begin(),
                            event.differences.begin() + static_cast<std::ptrdiff_t>(kept));
  return record;
}

RecordRef SiteLog::on(const TraceEvent &event) {
  Entry &function = entry(event.function);
  identity_ = event.function->identity;
  TraceRecord made = record(event, function);
  function.traced = true;
  ++traces_;
  retraces_ += event.was_evicted;
  nanoseconds_ += event.nanoseconds;
  if (!event.counted)
    return std::make_shared<const TraceRecord>(std::move(made));
  if (has_cause(made)) {
    ++caused_;
    ++caused_by_[cause_label(made)];
  }

  fold();
  const auto signature = std::hash<std::string>()(event.signature);
  const auto last = std::find(signatures_.rbegin(), signatures_.rend(), signature);
  made.seen = last != signatures_.rend();
  if (made.seen && made.was_once.empty())
    made.was_once = records_[static_cast<std::size_t>(signatures_.rend() - last) - 1]->once;
  records_.push_back(std::make_shared<const TraceRecord>(std::move(made)));
  signatures_.push_back(signature);
  if (records_.size() > most_records) {
    records_.pop_front();
    signatures_.pop_front();
  }
  detect(event, *records_.back());
  return records_.back();
}

/// The two warnings name the causes of their windows. A later cause is news while the site
/// retraces as often as that.
void SiteLog::detect(const TraceEvent &event, const TraceRecord &made) {
  const auto due = detector_.traced();
  if (!due)
    return;
  const std::vector<std::string> keys = cause_keys(made);
  Due warning{.traces = due->traces, .calls = due->calls, .call = event.call};
  if (due->shown) {
    warning.kind = first_warned_ ? Due::Kind::second : Due::Kind::first;
    warning.first_call = first_warned_.value_or(Site());
    if (!first_warned_)
      first_warned_ = event.call;
    const auto window = std::min<std::size_t>(due->traces, records_.size());
    for (auto record = records_.end() - static_cast<std::ptrdiff_t>(window);
         record != records_.end(); ++record)
      named_.merge(to_set(cause_keys(**record)));
  } else {
    const bool known = std::ranges::all_of(keys, [&](const auto &k) { return named_.contains(k); });
    if (known || news_ == most_news)
      return;
    ++news_;
    named_.insert(keys.begin(), keys.end());
    warning.kind = Due::Kind::news;
  }
  warning.account = account();
  due_.push_back(std::move(warning));
}

Account SiteLog::account() const {
  return {.function = identity_,
          .nanoseconds = nanoseconds_,
          .limit = limit_,
          .signatures = static_cast<std::size_t>(traces_ - retraces_),
          .records = {records_.begin(), records_.end()}};
}

void SiteLog::on(const EvictEvent &event) {
  limit_ = event.limit;
  if (event.dead || told_of_eviction_ || records_.empty())
    return;
  told_of_eviction_ = true;
  due_.push_back({.kind = Due::Kind::eviction,
                  .account = account(),
                  .traces = traces_,
                  .calls = traces_,
                  .evicted = event.signature,
                  .call = event.call});
}

std::optional<Due> SiteLog::take_due() {
  if (due_.empty())
    return std::nullopt;
  Due oldest = std::move(due_.front());
  due_.pop_front();
  // C++ called: no line of Python did.
  if (oldest.call.file.empty())
    oldest.call = identity_.definition;
  return oldest;
}

std::optional<Row> SiteLog::row() {
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
  row.account = account();
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
  first_warned_.reset();
  named_.clear();
  news_ = 0;
}

bool SiteLog::dead() {
  sweep();
  return functions_.empty();
}

} // namespace tracehost::report
