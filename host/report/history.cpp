#include "report/history.h"

#include "report/contrast.h"

#include <array>
#include <chrono>
#include <utility>

namespace tracehost::report {
namespace {

HistoryEntry::Kind kind_of(GraphNews::What what) {
  using Kind = HistoryEntry::Kind;
  static constexpr std::array<Kind, 6> kinds = {Kind::capture, Kind::no_capture, Kind::drop,
                                                Kind::tape,    Kind::no_tape,    Kind::drop_tape};
  return kinds[static_cast<std::size_t>(what)];
}

HistoryEntry started(HistoryEntry::Kind kind, const Counters &function, const Site &call) {
  using Seconds = std::chrono::duration<double>;
  HistoryEntry made;
  made.kind = kind;
  made.time = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
  made.function = function.number;
  made.site = function.identity.site_key;
  made.name = function.identity.name;
  made.qualified = function.identity.qualified;
  made.definition = function.identity.definition;
  made.call = call;
  return made;
}

} // namespace

/// A signature of ten thousand leaves is not kept a thousand times.
std::string shortened(const std::string &text) {
  if (text.size() <= most_text)
    return text;
  std::size_t cut = most_text - 3;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80)
    --cut; // not inside a character
  return text.substr(0, cut) + "...";
}

const char *name(HistoryEntry::Kind kind) {
  static constexpr std::array<const char *, 11> names = {
      "trace",      "warn", "evict", "fail",    "mismatch", "capture",
      "no_capture", "drop", "tape",  "no_tape", "drop_tape"};
  return names[static_cast<std::size_t>(kind)];
}

HistoryEntry entry_of(const TraceEvent &event, const TraceRecord &record, std::size_t limit) {
  HistoryEntry made = started(HistoryEntry::Kind::trace, *event.function, event.call);
  made.signature = shortened(event.signature);
  made.lock = shortened(event.lock);
  for (const std::string &cause : causes(record, event.function->identity, limit))
    if (made.causes.size() < TraceRecord::most_differences)
      made.causes.push_back(shortened(cause));
  for (const SpecializedSize &specialized : event.specialized)
    made.notes.push_back(sentence(specialized));
  for (const std::string &note : event.notes)
    made.notes.push_back(shortened(note));
  made.nanoseconds = event.nanoseconds;
  made.ops = event.ops;
  made.dynamic = event.full && event.full->is_dynamic();
  made.requested = !event.counted;
  return made;
}

HistoryEntry entry_of(const EvictEvent &event) {
  HistoryEntry made = started(HistoryEntry::Kind::evict, *event.function, event.call);
  made.signature = shortened(event.signature);
  made.hits = event.hits;
  return made;
}

HistoryEntry entry_of(const FailEvent &event) {
  HistoryEntry made = started(HistoryEntry::Kind::fail, *event.function, event.call);
  made.text = shortened(event.error);
  made.lock = shortened(event.lock);
  return made;
}

HistoryEntry entry_of(const MismatchEvent &event) {
  HistoryEntry made = started(HistoryEntry::Kind::mismatch, *event.function, event.call);
  made.signature = shortened(event.signature);
  made.lock = shortened(event.lock);
  made.text =
      shortened(event.culprit.empty() ? event.what : event.what + "; made by " + event.culprit);
  made.hits = event.hits;
  return made;
}

HistoryEntry entry_of(const GraphEvent &event) {
  HistoryEntry made = started(kind_of(event.news.what), *event.function, {});
  made.signature = shortened(event.signature);
  made.text = shortened(event.news.why);
  made.ops = static_cast<std::uint32_t>(event.news.ops);
  made.bytes = event.news.bytes;
  return made;
}

HistoryEntry entry_of(const Counters &function, const Site &call, const std::string &text) {
  HistoryEntry made = started(HistoryEntry::Kind::warn, function, call);
  made.text = text;
  return made;
}

void History::add(HistoryEntry entry) {
  std::deque<HistoryEntry> &entries = entry.kind < HistoryEntry::Kind::capture ? entries_ : graphs_;
  if (entries.size() >= most_entries)
    entries.pop_front();
  entries.push_back(std::move(entry));
}

void History::clear() {
  entries_.clear();
  graphs_.clear();
}

std::vector<HistoryEntry> History::entries(std::optional<std::uint64_t> function,
                                           bool graphs) const {
  std::vector<HistoryEntry> result;
  for (const HistoryEntry &entry : graphs ? graphs_ : entries_)
    if (!function || entry.function == *function)
      result.push_back(entry);
  return result;
}

} // namespace tracehost::report
