#pragma once

#include "report/declared.h"
#include "report/finding.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tracehost::report {

/// All that the wording of a warning is made from.
struct Account {
  const Identity &function;
  std::uint64_t traces, calls;        ///< "`traces` out of the last `calls` calls"
  std::uint64_t nanoseconds;          ///< spent on traces so far
  std::span<const TraceRecord> known; ///< the latest traces, oldest first
  std::size_t limit = 64;             ///< live specializations
  std::size_t signatures = 0;         ///< distinct ones traced so far

  /// The traces that `traces` counts.
  std::span<const TraceRecord> window() const {
    return known.last(std::min<std::size_t>(traces, known.size()));
  }
};

/// What a user can write to keep some Findings from happening.
struct Remedy {
  enum class Kind {
    reduce,  ///< reduce_retracing=True
    declare, ///< an input_signature
    pad,     ///< to one size
    change,  ///< something else, one Finding's
  };
  std::string text{};
  std::vector<std::size_t> covers{}; ///< indices of Findings
  Kind kind = Kind::change;
  Declared declared{}; ///< for Kind::declare
};

/// Only what is possible and not applied already: at most one of reduce and of declare, then at
/// most one for each Finding.
std::vector<Remedy> remedies(std::span<const Finding> findings, const Account &account);

/// The sizes that the Finding names and the body needs as numbers: no decorator helps.
std::vector<SpecializedSize> specialized(const Finding &finding, const Account &account);
/// Whether it is a Python number that varies.
bool is_number(const Finding &finding);

/// How many traces of the window would have been hits with all Findings in `covered` kept from
/// happening: those that differ from their nearest Specialization in nothing else.
std::size_t saved(std::span<const Finding> findings, const std::vector<bool> &covered,
                  const Account &account);

/// Where to look and what to think of, where no remedy is known to help.
std::string advice(const Finding &finding, const Account &account);

} // namespace tracehost::report
