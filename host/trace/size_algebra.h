#pragma once

#include "signature/size_condition.h"

#include <optional>

namespace tracehost::trace {

/// What `comparison` is for all sizes, where that follows from algebra: integer polynomials of the
/// sizes, each of them at least 0; // and % count as unknowns of their own.
///
///     x.0 * 2 == 2 * x.0   always       16 * x.0 == 1   never (16 does not divide 1)
///     x.0 + 1 > 0          always       x.0 == y.0      depends
std::optional<bool> always(const SizeExpression &comparison);

} // namespace tracehost::trace
