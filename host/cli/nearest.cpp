#include "cli/nearest.h"

#include <algorithm>
#include <numeric>

namespace tracehost::cli {
namespace {

// Levenshtein; names are a dozen letters long.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

} // namespace

std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string_view> &names) {
  std::optional<std::string> found;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1; // edits; only fewer will do
  for (const auto name : names) {
    const bool begins = word.size() >= 2 && name.starts_with(word);
    const auto edits = begins ? 1 : distance(word, name);
    if (edits < best) {
      best = edits;
      found = name;
    }
  }
  return found;
}

} // namespace tracehost::cli
