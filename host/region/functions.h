#pragma once

#include "region/region.h"

#include <c10/util/FunctionRef.h>

/// Functions whose bits are eager's own: eager's kernels, on a tile of a region.
///
/// Most are Intel's vector library, whose results depend neither on place nor on length. Others
/// (sigmoid, silu) take scalar code for the last values of a range, with other bits. A tile starts
/// at a multiple of all vector lengths from where eager's range starts, and only the last is short,
/// so that the same values take the scalar code.

namespace tracehost::region {

/// Whether a function of this dtype has eager's bits in tiles.
bool has_function(RegionCode function, c10::ScalarType dtype);
/// out = function(in), n contiguous values of `dtype`; `in` may be `out`. Requires: has_function().
void run_function(RegionCode function, c10::ScalarType dtype, std::int64_t n, const void *in,
                  void *out);

/// Of more values eager's gelu() gives each thread an equal part, and other functions do not
/// (GELU_MIN_ELEMENTS_FOR_MULTI_THREADING in ATen/native/cpu/Activation.cpp).
inline constexpr std::int64_t kMostOfGelu = 16384;

/// Calls f(begin, end) for the parts of [0, n) that eager gives to its threads for n values.
void split_as_eager(std::int64_t n, c10::function_ref<void(std::int64_t, std::int64_t)> f);

} // namespace tracehost::region
