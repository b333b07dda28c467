// Which of several names was meant by one that is misspelt.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tracehost::cli {

// Near enough: one edit for each three letters, at least one; or the beginning of the name.
class Nearest {
public:
  explicit Nearest(std::string_view word);
  void offer(std::string_view name);
  const std::optional<std::string> &name() const { return name_; }

private:
  std::string_view word_;
  std::size_t best_; // edits; only fewer will do
  std::optional<std::string> name_;
};

} // namespace tracehost::cli
