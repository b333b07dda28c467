#include "report/record.h"

#include <fmt/format.h>

#include <array>

namespace tracehost::report {

const char *name(TraceRecord::Origin origin) {
  static constexpr std::array<const char *, 5> names = {"initial", "again", "cleared", "emptied",
                                                        "differs"};
  return names[static_cast<std::size_t>(origin)];
}

bool has_cause(const TraceRecord &record) {
  return record.evicted || record.origin != TraceRecord::Origin::initial ||
         !record.differences.empty();
}

const char *cause_label(const TraceRecord &record) {
  using Origin = TraceRecord::Origin;
  if (!record.was_once.empty())
    return "served_once";
  if (record.evicted)
    return "evicted";
  if (record.origin == Origin::again)
    return "decorated_again";
  if (record.origin == Origin::emptied || record.origin == Origin::cleared)
    return "cache_emptied";
  return record.differences.empty() ? "unknown" : name(record.differences.front().cause);
}

std::vector<std::string> cause_keys(const TraceRecord &record) {
  using Origin = TraceRecord::Origin;
  if (!record.was_once.empty())
    return {"once " + record.was_once};
  std::vector<std::string> keys;
  if (record.evicted)
    keys.emplace_back("evicted");
  else if (record.origin != Origin::initial &&
           (record.origin != Origin::differs || record.differences.empty()))
    keys.emplace_back(name(record.origin));
  for (const Difference &d : record.differences)
    keys.push_back(fmt::format("{} {} {} {}", name(d.cause), d.path, d.dimension, d.where));
  return keys;
}

} // namespace tracehost::report
