#pragma once

#include "tracehost/function.h"

#include <string>
#include <vector>

namespace tracehost::runtime {

/// Arguments for a signature as a user writes it, tensors being zeros:
///
///     f32[8,128], i64[], 3, 0.5, True, None, 'relu', mask=bool[8]
///
/// dtypes: f16 bf16 f32 f64, i8 i16 i32 i64, u8, bool, c64 c128, or torch's names. A tensor is on
/// the device behind an @: `f32[8]@cuda`. Throws Error.
std::vector<Argument> zeros(const std::string &signature);

} // namespace tracehost::runtime
