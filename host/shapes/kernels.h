#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>

namespace tracehost::shapes {

/// The kernel in C++ that was registered for `key` last; nullopt: there is none. torch covers most
/// of its C++ meta kernels by ones in Python, which are slower by 30 times and import sympy.
std::optional<c10::KernelFunction> cpp_kernel(const c10::OperatorHandle &op, c10::DispatchKey key);

/// The kernel that calls other ops, for every device.
std::optional<c10::KernelFunction> composite_kernel(const c10::OperatorHandle &op);

/// Whether the op takes random numbers from a generator.
bool draws(const c10::OperatorHandle &op);

} // namespace tracehost::shapes
