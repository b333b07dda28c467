#pragma once

#include "region/region.h"

#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

#include <string_view>
#include <variant>

/// Which aten ops a region can have, and as which of its own.
///
/// The rounding of each op is eager's: its kernels compute `add` with an alpha, addcmul() and
/// lerp() by fused multiplication and addition, and addcdiv() not.

namespace tracehost::region {

/// An op's argument: a tensor of the region, a number, text, or None.
using RegionArgument = std::variant<std::monostate, RegionOperand, c10::Scalar, std::string_view>;

/// Adds an op, given its name and overload (`aten::mul.Tensor`) and all arguments of its schema.
/// The result's operand; none: a region can't have this op, and the plan is as before.
std::optional<RegionOperand> add_to_region(RegionPlan &plan, std::string_view op,
                                           c10::ArrayRef<RegionArgument> arguments);

} // namespace tracehost::region
