#include "report/contrast.h"

#include "report/finding.h"

#include <fmt/format.h>

#include <algorithm>

namespace tracehost::report {
namespace {

constexpr std::size_t most = 4;

} // namespace

std::string contrast(const Difference &d) {
  const std::string about =
      d.cause == Cause::condition ? "a comparison of sizes at " + d.path : subject(finding_of(d));
  if (d.before == d.after)
    return fmt::format("{} is another one ({})", about, d.after);
  return fmt::format("{} {} {}, not {}", about, words_of(d.cause).has, d.after, d.before);
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
