#include "report/contrast.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace tracehost::report {
namespace {

constexpr std::size_t most = 4, most_paths = 3;

/// As Python would quote it: `'x'`, `"batch['image']"`.
std::string quoted(const std::string &path) {
  const char quote = path.find('\'') == std::string::npos ? '\'' : '"';
  return quote + path + quote;
}

/// What stands between the subject and the value that it has.
const char *has(Cause cause) {
  static constexpr std::pair<Cause, const char *> own[] = {
      {Cause::rank, "has shape"},       {Cause::dtype, "has dtype"},
      {Cause::device, "is on"},         {Cause::layout, "has layout"},
      {Cause::type, "is of type"},      {Cause::requires_grad, "has requires_grad"},
      {Cause::structure, "is built as"}};
  const auto *const found = std::ranges::find(own, cause, &std::pair<Cause, const char *>::first);
  return found == std::end(own) ? "is" : found->second;
}

std::string was_and_is(const Difference &d, const std::vector<std::string> &paths) {
  const std::string about = subject(d, paths);
  if (d.cause == Cause::object)
    return fmt::format("{} is another object ({})", about, d.after);
  std::string aspect;
  if (d.cause != Cause::shape && d.cause != Cause::value && d.cause < Cause::context)
    aspect = fmt::format(", {},", name(d.cause));
  const bool was_dynamic = d.cause == Cause::shape && d.before == "None";
  if (d.before == d.after || was_dynamic)
    return fmt::format("{}{} changed ({})", about, aspect, d.after);
  return fmt::format("{}{} was {}, is {}", about, aspect, d.before, d.after);
}

/// Whether two arguments changed hand in hand: images and labels of one batch.
bool hand_in_hand(const Difference &a, const Difference &b) {
  return a.cause <= Cause::requires_grad && a.cause == b.cause && a.dimension == b.dimension &&
         a.before == b.before && a.after == b.after;
}

std::string of_origin(const TraceRecord &record, const Identity &function, std::size_t limit) {
  using Origin = TraceRecord::Origin;
  if (!record.was_once.empty())
    return fmt::format("the previous graph was good for one call only: {}", record.was_once);
  if (record.evicted)
    return fmt::format("a specialization that would have served had been evicted (limit={})",
                       limit);
  switch (record.origin) {
  case Origin::again:
    return fmt::format("tracehost.function was applied again to {} ({}), with an empty cache",
                       function.name, text(function.definition));
  case Origin::cleared:
    return "clear() had dropped the graphs";
  case Origin::emptied:
    return "the graphs before are gone, with the objects that they were traced with";
  case Origin::differs:
    return record.differences.empty()
               ? "an argument compared unequal and then equal again: see its __eq__"
               : "";
  case Origin::initial:
    break;
  }
  return {};
}

} // namespace

std::string subject(const Difference &d, const std::vector<std::string> &paths) {
  const std::string where =
      d.cause == Cause::shape ? fmt::format(", dimension {},", d.dimension) : "";
  switch (d.cause) {
  case Cause::context:
    return d.path;
  case Cause::condition:
    return fmt::format("sizes compare differently at {}:", d.path);
  case Cause::guarded:
    return quoted(d.path) + ", which the body reads,";
  case Cause::capture:
    return "captured tensor " + quoted(d.path);
  case Cause::read:
    if (d.where == text(Site{}))
      return "a number that no line of the body reads";
    return (d.path.empty() ? "a number" : "the value of " + quoted(d.path)) + " at " + d.where;
  default:
    break;
  }
  if (paths.size() < 2)
    return "argument " + quoted(d.path) + where;
  std::vector<std::string> names;
  for (const std::string &path : paths)
    if (names.size() < most_paths)
      names.push_back(quoted(path));
  std::string last = names.back();
  if (paths.size() > most_paths)
    last = fmt::format("{} more", paths.size() - most_paths + 1);
  names.pop_back();
  return fmt::format("arguments {} and {}{}", fmt::join(names, ", "), last, where);
}

std::string contrast(const Difference &d) {
  const std::string about =
      d.cause == Cause::condition ? "a comparison of sizes at " + d.path : subject(d);
  if (d.before == d.after)
    return fmt::format("{} is another one ({})", about, d.after);
  return fmt::format("{} {} {}, not {}", about, has(d.cause), d.after, d.before);
}

std::string contrast(const std::vector<Difference> &differences) {
  std::string result;
  for (std::size_t i = 0; i < std::min(differences.size(), most); ++i)
    result += (i ? "; " : "") + contrast(differences[i]);
  if (differences.size() > most) {
    const std::size_t more = differences.size() - most;
    result += fmt::format("; and {} more difference{}", more, more == 1 ? "" : "s");
  }
  return result;
}

std::vector<std::string> causes(const TraceRecord &record, const Identity &function,
                                std::size_t limit) {
  std::vector<std::string> result;
  if (std::string first = of_origin(record, function, limit); !first.empty())
    result.push_back(std::move(first));
  if (!record.was_once.empty()) // differences from other signatures are no cause
    return result;
  std::vector<bool> said(record.differences.size());
  for (std::size_t i = 0; i < said.size(); ++i) {
    const Difference &d = record.differences[i];
    std::vector<std::string> paths;
    for (std::size_t j = i; j < said.size(); ++j)
      if (const Difference &other = record.differences[j];
          !said[j] && (j == i || hand_in_hand(d, other))) {
        paths.push_back(other.path);
        said[j] = j > i;
      }
    if (!said[i])
      result.push_back(was_and_is(d, paths));
  }
  return result;
}

std::string sentence(const SpecializedSize &specialized) {
  return fmt::format("dimension {} of {} cannot be dynamic: {} at {}", specialized.dimension,
                     quoted(specialized.path), specialized.why, text(specialized.where));
}

} // namespace tracehost::report
