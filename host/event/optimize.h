#pragma once

namespace tracehost {

/// What runs settled calls besides libtorch's interpreter, with the bits of the interpreter.
enum class Optimize : unsigned char {
  off,
  tapes, ///< the default: kernel tapes (tape/tapes.h), which are for the CPU
  exact, ///< optimize="exact": CUDA graphs as well (capture/captures.h)
};

} // namespace tracehost
