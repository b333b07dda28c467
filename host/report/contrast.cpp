#include "report/contrast.h"

#include "report/finding.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::report {
namespace {

constexpr std::size_t most = 4;

std::string subject(const Difference &d) {
  switch (d.cause) {
  case Cause::context:
    return d.path;
  case Cause::condition:
    return "a comparison of sizes at " + d.path;
  case Cause::guarded:
    return quoted(d.path) + ", which the body reads,";
  case Cause::read:
    return fmt::format("{}, read as a number at {},", quoted(d.path), d.where);
  case Cause::capture:
    return "captured tensor " + quoted(d.path);
  case Cause::shape:
    return fmt::format("argument {}, dimension {},", quoted(d.path), d.dimension);
  default:
    return "argument " + quoted(d.path);
  }
}

/// `is`, or what else joins the subject and the two texts.
std::string verb(Cause cause) {
  switch (cause) {
  case Cause::rank:
    return "has shape";
  case Cause::dtype:
    return "has dtype";
  case Cause::device:
    return "is on";
  case Cause::layout:
    return "has layout";
  case Cause::requires_grad:
    return "has requires_grad";
  case Cause::type:
    return "is of type";
  case Cause::structure:
    return "is built as";
  default:
    return "is";
  }
}

} // namespace

std::string contrast(const Difference &d) {
  if (d.before == d.after)
    return fmt::format("{} is another one ({})", subject(d), d.after);
  return fmt::format("{} {} {}, not {}", subject(d), verb(d.cause), d.after, d.before);
}

std::string contrast(const std::vector<Difference> &differences) {
  std::string result;
  for (std::size_t i = 0; i < std::min(differences.size(), most); ++i)
    result += (i ? "; " : "") + contrast(differences[i]);
  if (differences.size() > most)
    result += fmt::format("; and {}", counted(differences.size() - most, "more difference"));
  return result;
}

} // namespace tracehost::report
