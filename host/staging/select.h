#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tracehost::staging {

/// The view `t[..., index, ...]` at a dimension: `index` 0-dim, of integers, traced. Throws torch's
/// IndexError where it is out of bounds. Requires: trace::recording().
at::Tensor select(const at::Tensor &t, std::int64_t dimension, const at::Tensor &index);

} // namespace tracehost::staging
