#pragma once

#include <ATen/core/stack.h>

#include <optional>
#include <string_view>
#include <vector>

namespace tracehost::trace {

/// Results without data of ops whose own way to them is a loop over a size: torch's recurrent
/// layers make a dozen tensors a time step. Nullopt for all other ops; throws where sizes don't
/// fit. `arguments` as the schema has them.
std::optional<std::vector<c10::IValue>> by_rule(std::string_view op,
                                                const std::vector<c10::IValue> &arguments);

} // namespace tracehost::trace
