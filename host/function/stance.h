#pragma once

#include <cstdint>

namespace tracehost {

/// What a call may do.
enum class Stance : std::uint8_t {
  trace,          ///< a miss is traced
  eager,          ///< every call runs the body as it is; the front end does not ask the Function
  eager_on_miss,  ///< a hit runs its graph, a miss the body as it is
  eager_on_error, ///< a miss is traced; if unsupported, the body continues without a graph
  fail_on_miss,   ///< a miss is an error
};

} // namespace tracehost
