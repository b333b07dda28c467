#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tracehost {

/// What happened to a CUDA graph of a Function (capture/captures.h), or to the kernel tapes of a
/// graph (tape/tapes.h).
struct GraphNews {
  enum class What : std::uint8_t {
    captured, ///< calls replay it from now on
    rejected, ///< such calls will not be captured
    dropped,  ///< a captured one is gone, with its memory
    taped,    ///< the first tape of a graph is made
    no_tape,  ///< the graph will have none
    untaped,  ///< the graph's tapes have gone, and it will have no other
  };
  What what = What::captured;
  std::string why;        ///< `its parameters move`; of taped: `a tape (3 of 3 ops)`
  std::size_t ops = 0;    ///< that it launches, or that the tape runs
  std::int64_t bytes = 0; ///< that it takes: device memory; of a tape the host's. Negative: returns
};

} // namespace tracehost
