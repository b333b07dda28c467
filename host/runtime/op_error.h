#pragma once

#include <string>

namespace tracehost::runtime {

/// Throws what an op of `function` threw, which is being handled, as an OpError. Error and
/// std::bad_alloc stay what they are.
[[noreturn]] void throw_op_error(const std::string &function);

} // namespace tracehost::runtime
