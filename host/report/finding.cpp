#include "report/finding.h"

#include "signature/value_guard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tracehost::report {
namespace {

constexpr std::size_t most_values = 8, most_calls = 2, most_paths = 3;

/// The text of a dynamic dimension. No argument has this text.
constexpr const char *any_size = "None";

void note(std::vector<std::string> &values, const std::string &value) {
  if (std::find(values.begin(), values.end(), value) == values.end())
    values.push_back(value);
}

/// The Finding of this kind, place and cause; a new one at the end if there is none.
Finding &entry(std::vector<Finding> &found, Finding::Kind kind, const Difference *difference) {
  for (auto &finding : found)
    if (finding.kind == kind &&
        (!difference ||
         (finding.cause == difference->cause && finding.dimension == difference->dimension &&
          finding.where == difference->where && finding.paths.front() == difference->path)))
      return finding;
  found.push_back(difference ? finding_of(*difference) : Finding{.kind = kind});
  return found.back();
}

void attribute(Finding &finding, std::size_t trace, const Site &call) {
  if (!finding.traces.empty() && finding.traces.back() == trace)
    return; // twice in one trace
  finding.traces.push_back(trace);
  const auto known = std::find_if(finding.calls.begin(), finding.calls.end(),
                                  [&](const auto &entry) { return entry.first == call; });
  if (known != finding.calls.end())
    ++known->second;
  else if (!call.file.empty())
    finding.calls.emplace_back(call, 1);
}

/// Arguments that changed hand in hand are one cause: images and labels of one batch.
bool hand_in_hand(const Finding &a, const Finding &b) {
  const bool of_tensors = a.cause <= Cause::requires_grad;
  return of_tensors && a.kind == Finding::Kind::difference && b.kind == a.kind &&
         a.cause == b.cause && a.dimension == b.dimension && a.values == b.values &&
         a.traces == b.traces;
}

void join(std::vector<Finding> &found) {
  std::vector<Finding> joined;
  for (auto &finding : found) {
    const auto same = std::find_if(joined.begin(), joined.end(), [&](const Finding &other) {
      return hand_in_hand(other, finding);
    });
    if (same == joined.end()) {
      joined.push_back(std::move(finding));
    } else {
      same->paths.push_back(finding.paths.front());
      same->ranks.push_back(finding.ranks.front());
    }
  }
  found = std::move(joined);
}

std::string listed(const std::vector<std::string> &values) {
  const std::size_t shown = std::min(values.size(), most_values);
  return fmt::format("{}{}",
                     fmt::join(values.begin(), values.begin() + static_cast<long>(shown), ", "),
                     shown < values.size() ? ", ..." : "");
}

std::string change(const Finding &finding) {
  const std::string values = listed(finding.values);
  const std::size_t count = finding.values.size();
  if (finding.cause == Cause::object)
    return fmt::format("was another object {} ({})", counted(finding.traces.size(), "time"),
                       values);
  if (finding.cause == Cause::condition)
    return fmt::format("{}", fmt::join(finding.values, ", then "));
  if (count < 2) // their texts are the same
    return fmt::format("changed ({})", values);
  const Words &words = words_of(finding.cause);
  return fmt::format("{} {} {} ({})", words.took, count, words.forms, values);
}

std::string origin(const Finding &finding) {
  std::vector<std::string> sites;
  for (const auto &[site, count] : finding.calls)
    if (sites.size() < most_calls)
      note(sites, text(site));
  return sites.empty() ? std::string() : fmt::format(", from {}", fmt::join(sites, " and "));
}

/// What a Finding other than a difference says. `times`: how often, ` 3 times`; empty: once.
std::string happened(const Finding &finding, const Identity &function, std::size_t limit,
                     const std::string &times) {
  switch (finding.kind) {
  case Finding::Kind::again:
    return fmt::format("tracehost.function was applied again{} to {} ({}), {}with an empty cache",
                       times, function.name, text(function.definition),
                       times.empty() ? "" : "each time ");
  case Finding::Kind::emptied:
    return fmt::format("the cache was empty again{}: cleared, or the objects that it was traced "
                       "with are gone",
                       times);
  case Finding::Kind::once:
    return fmt::format("the trace before served its own call alone{} ({})", times,
                       fmt::join(finding.values, "; "));
  case Finding::Kind::evicted:
    return fmt::format("a specialization that would have served had been evicted{} (limit={})",
                       times, limit);
  default:
    return fmt::format("an argument compared unequal and then equal again{}: see its __eq__",
                       times);
  }
}

} // namespace

const Words &words_of(Cause cause) {
  static constexpr Words others{Cause::value, "took", "values", "is"};
  static constexpr Words own[] = {
      {Cause::rank, "took", "ranks", "has shape"},
      {Cause::dtype, "took", "dtypes", "has dtype"},
      {Cause::device, "was on", "devices", "is on"},
      {Cause::layout, "took", "layouts", "has layout"},
      {Cause::requires_grad, "took", "values of requires_grad", "has requires_grad"},
      {Cause::subclass, "was of", "tensor classes", "is"},
      {Cause::alias, "took", "roles", "is"},
      {Cause::type, "took", "types", "is of type"},
      {Cause::structure, "took", "structures", "is built as"},
      {Cause::capture, "took", "forms", "is"}};
  const auto *const found = std::ranges::find(own, cause, &Words::cause);
  return found == std::end(own) ? others : *found;
}

Finding finding_of(const Difference &difference) {
  return {.cause = difference.cause,
          .paths = {difference.path},
          .ranks = {difference.rank},
          .dimension = difference.dimension,
          .where = difference.where};
}

std::string subject(const Finding &finding) {
  if (finding.cause == Cause::context)
    return finding.paths.front();
  if (finding.cause == Cause::condition)
    return fmt::format("sizes compare differently at {}:", finding.paths.front());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < finding.paths.size() && i < most_paths; ++i)
    names.push_back(quoted(finding.paths[i]));
  if (finding.cause == Cause::guarded)
    return names.front() + ", which the body reads,";
  if (finding.cause == Cause::read && finding.paths.front() == kCheckedNumber)
    return fmt::format("{} at {}", kCheckedNumber, finding.where);
  if (finding.cause == Cause::read)
    return fmt::format("{}, read as a number at {},", names.front(), finding.where);
  if (finding.cause == Cause::capture)
    return "captured tensor " + names.front();
  const std::string where =
      finding.cause == Cause::shape ? fmt::format(", dimension {},", finding.dimension) : "";
  if (names.size() == 1)
    return "argument " + names.front() + where;
  std::string last = names.back();
  if (finding.paths.size() > most_paths)
    last = fmt::format("{} more", finding.paths.size() - most_paths + 1);
  names.pop_back();
  return fmt::format("arguments {} and {}{}", fmt::join(names, ", "), last, where);
}

std::vector<Finding> findings(std::span<const TraceRecord> records) {
  std::vector<Finding> found;
  for (std::size_t i = 0; i < records.size(); ++i) {
    const TraceRecord &record = records[i];
    const auto add = [&](Finding::Kind kind) {
      attribute(entry(found, kind, nullptr), i, record.call);
    };
    if (!record.was_once.empty()) { // differences from other signatures are no cause
      note(entry(found, Finding::Kind::once, nullptr).values, record.was_once);
      add(Finding::Kind::once);
      continue;
    }
    if (record.evicted)
      add(Finding::Kind::evicted);
    else if (record.origin == TraceRecord::Origin::again)
      add(Finding::Kind::again);
    else if (record.origin == TraceRecord::Origin::emptied)
      add(Finding::Kind::emptied);
    else if (record.origin == TraceRecord::Origin::differs && record.differences.empty())
      add(Finding::Kind::unnamed);
    for (const auto &difference : record.differences) {
      Finding &finding = entry(found, Finding::Kind::difference, &difference);
      const bool size = difference.cause == Cause::shape;
      if (difference.cause != Cause::object && !(size && difference.before == any_size))
        note(finding.values, difference.before); // of an object: it may be gone
      if (!size || difference.after != any_size)
        note(finding.values, difference.after);
      attribute(finding, i, record.call);
    }
  }
  join(found);
  const auto more = [](const auto &a, const auto &b) { return a.traces.size() > b.traces.size(); };
  std::stable_sort(found.begin(), found.end(), more);
  for (auto &finding : found)
    std::stable_sort(finding.calls.begin(), finding.calls.end(),
                     [](const auto &a, const auto &b) { return a.second > b.second; });
  return found;
}

const char *cause_label(const Finding &finding) {
  switch (finding.kind) {
  case Finding::Kind::difference:
    return name(finding.cause);
  case Finding::Kind::again:
    return "decorated_again";
  case Finding::Kind::emptied:
    return "cache_emptied";
  case Finding::Kind::evicted:
    return "evicted";
  case Finding::Kind::once:
    return "served_once";
  case Finding::Kind::unnamed:
    break;
  }
  return "unknown";
}

std::string sentence(const Finding &finding, const Identity &function, std::size_t limit) {
  const std::string what =
      finding.kind == Finding::Kind::difference
          ? subject(finding) + " " + change(finding)
          : happened(finding, function, limit, " " + counted(finding.traces.size(), "time"));
  return what + origin(finding);
}

std::string cause_of_one(const Finding &finding, const Identity &function, std::size_t limit) {
  if (finding.kind != Finding::Kind::difference)
    return happened(finding, function, limit, {});
  if (finding.cause == Cause::object)
    return fmt::format("{} is another object ({})", subject(finding), finding.values.front());
  std::string aspect;
  if (finding.cause != Cause::shape && finding.cause != Cause::value &&
      finding.cause < Cause::context)
    aspect = fmt::format(", {},", name(finding.cause));
  if (finding.values.size() < 2) // their texts are the same, or one was dynamic
    return fmt::format("{}{} changed ({})", subject(finding), aspect,
                       fmt::join(finding.values, ""));
  return fmt::format("{}{} was {}, is {}", subject(finding), aspect, finding.values[0],
                     finding.values[1]);
}

std::string sentence(const SpecializedSize &specialized) {
  return fmt::format("dimension {} of {} stays exact: {} at {}", specialized.dimension,
                     quoted(specialized.path), specialized.why, text(specialized.where));
}

std::string brief(const Finding &finding) {
  switch (finding.kind) {
  case Finding::Kind::again:
    return "decorated again";
  case Finding::Kind::emptied:
    return "cache emptied";
  case Finding::Kind::once:
    return "served one call";
  case Finding::Kind::evicted:
    return "evicted";
  case Finding::Kind::unnamed:
    return "unequal objects";
  case Finding::Kind::difference:
    break;
  }
  if (finding.cause == Cause::context)
    return finding.paths.front();
  if (finding.cause == Cause::condition)
    return "sizes compare differently";
  if (finding.cause == Cause::read && finding.paths.front() == kCheckedNumber)
    return std::string(kCheckedNumber);
  const std::string path = quoted(finding.paths.front());
  if (finding.cause == Cause::shape)
    return fmt::format("{} dimension {}", path, finding.dimension);
  if (finding.cause == Cause::read)
    return path + " read as a number";
  return path + " " + name(finding.cause);
}

std::string quoted(const std::string &path) {
  const char quote = path.find('\'') == std::string::npos ? '\'' : '"';
  return quote + path + quote;
}

std::string counted(std::size_t count, const char *noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

} // namespace tracehost::report
