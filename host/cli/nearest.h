// Which of several names was meant by one that is misspelt.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracehost::cli {

// The one of `names` that `word` means, if it is near enough: one edit for each three letters, at
// least one; or its beginning.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string_view> &names);

} // namespace tracehost::cli
