#pragma once

#include "signature/difference.h"

#include <string>
#include <vector>

namespace tracehost::report {

/// How one call differs from a Specialization: `argument 'x', dimension 1, is 15, not 12`.
std::string contrast(const Difference &difference);
/// The same of several, separated by semicolons; the first few, and how many more.
std::string contrast(const std::vector<Difference> &differences);

} // namespace tracehost::report
