#pragma once

#include <ranges>
#include <string_view>
#include <unordered_set>

namespace tracehost {

/// Calls `each` with every name of a text that has one space between two names. A table of ops is
/// such texts: a row for a rule, not for an op.
template <class Each> void for_each_name(std::string_view names, Each each) {
  for (const auto name : std::views::split(names, ' '))
    each(std::string_view(name.begin(), name.end()));
}

/// The names of a text that lives as long as the program.
inline std::unordered_set<std::string_view> op_names(std::string_view names) {
  std::unordered_set<std::string_view> result;
  for_each_name(names, [&](std::string_view name) { result.insert(name); });
  return result;
}

} // namespace tracehost
