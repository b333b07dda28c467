#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string_view>

namespace tracehost::shapes {

/// The op of a schema, of a node for example; nullopt: the dispatcher has none.
std::optional<c10::OperatorHandle> op_of(const c10::FunctionSchema &schema);

/// The kernel in C++ that was registered for `key` last; nullopt: there is none. torch covers most
/// of its C++ meta kernels by ones in Python, which are slower by 30 times and import sympy.
std::optional<c10::KernelFunction> cpp_kernel(const c10::OperatorHandle &op, c10::DispatchKey key);

/// The kernel that calls other ops, for every device.
std::optional<c10::KernelFunction> composite_kernel(const c10::OperatorHandle &op);

/// Whether the op writes the argument: by its schema, or as a running statistic of batch_norm and
/// its kin, which do not declare it. torch does not count that in the tensor's version either.
bool is_written(const c10::Argument &argument);
bool is_statistic(const c10::Argument &argument);

/// Whether the op takes random numbers from a generator.
bool draws(const c10::OperatorHandle &op);

/// Whether an op that draws does not, for that value of an argument: dropout of nothing, or of a
/// module that is not trained. `bernoulli` and `native_dropout` draw for a probability of 0.
bool stops_draws(std::string_view op, std::string_view argument, const c10::IValue &value);

} // namespace tracehost::shapes
