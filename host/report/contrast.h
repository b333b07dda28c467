#pragma once

#include "report/record.h"
#include "signature/difference.h"

#include <string>
#include <vector>

/// The sentences of one call or one trace, which C++ says without Python: in errors, and in events.
/// What many traces have in common is said by tracehost/_reports/words.

namespace tracehost::report {

/// `argument 'x', dimension 1,`: what a Difference is about. `paths`: where there are more than
/// one, arguments that changed hand in hand.
std::string subject(const Difference &difference, const std::vector<std::string> &paths = {});

/// How one call differs from a Specialization: `argument 'x', dimension 1, is 15, not 12`.
std::string contrast(const Difference &difference);
/// The same of several, separated by semicolons; the first few, and how many more.
std::string contrast(const std::vector<Difference> &differences);

/// Why one trace was made, a sentence each: `argument 'x', dimension 1, was 12, is 15`. Empty for a
/// first trace.
std::vector<std::string> causes(const TraceRecord &record, const Identity &function,
                                std::size_t limit);
/// `dimension 0 of 'x' cannot be dynamic: int() of the size at train.py:12`.
std::string sentence(const SpecializedSize &specialized);

} // namespace tracehost::report
