// The name that a misspelt word means.
#include "cli/options.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tracehost::cli {
namespace {

// Edits, of which one exchanges two letters that stand side by side; names are a dozen letters
// long.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), above = row;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    const std::vector<std::size_t> before = std::exchange(above, row);
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const auto substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// If it is near enough: one edit for each three letters, at least one; or its beginning.
template <typename Names>
std::optional<std::string> nearest(std::string_view word, const Names &names) {
  std::optional<std::string> found;
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1; // edits; only fewer will do
  for (const std::string_view name : names) {
    // `notebooks`, `benchmark`
    const bool continues = name.size() >= 3 && word.starts_with(name);
    const bool begins = word.size() >= 2 && name.starts_with(word);
    const auto edits = begins || continues ? 1 : distance(word, name);
    if (edits < best) {
      best = edits;
      found = name;
    }
  }
  return found;
}

} // namespace

std::optional<std::string> nearest_command(std::string_view word) {
  return nearest(word, commands());
}

std::optional<std::string> nearest_option(std::string_view name) {
  std::vector<std::string_view> names(options().size());
  std::ranges::transform(options(), names.begin(), &Option::name);
  return nearest(name, names);
}

} // namespace tracehost::cli
