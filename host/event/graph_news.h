#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tracehost {

/// What happened to a CUDA graph of a Function (capture/captures.h).
struct GraphNews {
  enum class What : std::uint8_t {
    captured, ///< calls replay it from now on
    rejected, ///< such calls will not be captured
    dropped,  ///< a captured one is gone, with its memory
  };
  What what = What::captured;
  std::string why;        ///< of the others: `its parameters move`
  std::size_t ops = 0;    ///< that it launches
  std::int64_t bytes = 0; ///< of device memory that it takes; negative: that it returns
};

} // namespace tracehost
