#pragma once

#include "report/finding.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tracehost::report {

/// All that the wording of a warning is made from.
struct Account {
  const Identity &function;
  std::uint64_t traces, calls;         ///< "`traces` out of the last `calls` calls"
  std::uint64_t nanoseconds;           ///< spent on traces so far
  std::span<const TraceRecord> window; ///< the traces that `traces` counts
  std::size_t limit = 64;              ///< live specializations
  std::size_t signatures = 0;          ///< distinct ones traced so far
};

/// What a user can write to keep some Findings from happening.
struct Remedy {
  std::string text;
  std::vector<std::size_t> covers; ///< indices of Findings
};

/// At most one for each Finding, only what is possible and not in force already.
std::vector<Remedy> remedies(std::span<const Finding> findings, const Account &account);

/// How many traces of the window would have been hits with all Findings in `covered` kept from
/// happening: those that differ from their nearest Specialization in nothing else.
std::size_t saved(std::span<const Finding> findings, const std::vector<bool> &covered,
                  const Account &account);

/// Where to look and what to think of, where no remedy is known to help.
std::string advice(const Finding &finding, const Account &account);

} // namespace tracehost::report
