#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace tracehost::validate {

/// What differs first between what a graph made and what its body made, `element (1, 2): 3.0 in the
/// graph, 1.0 in the body`; empty: nothing. Values are equal bit by bit, or within the tolerance
/// that torch.testing has for the dtype; NaN equals NaN. Waits for the device.
std::string difference(const at::Tensor &graph, const at::Tensor &body);
/// Whether they are equal bit by bit. Requires: no difference of kind.
bool same_values(const at::Tensor &a, const at::Tensor &b);
/// Whether floats differ by at most what another order of additions makes: a thousand times the
/// tolerance of difference(). Kinds are the same.
bool nearly_same(const at::Tensor &a, const at::Tensor &b);
/// Of all but the values.
std::string difference_of_kind(const at::Tensor &graph, const at::Tensor &body);

} // namespace tracehost::validate
