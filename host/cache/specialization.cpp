#include "cache/specialization.h"

#include <algorithm>

namespace tracehost {

bool Specialization::runs_without_gil() const {
  return program->long_running() || signature.context.autocast() || is_on_device(signature);
}

std::size_t estimated_bytes(const Specialization &s) {
  std::size_t sum = sizeof s + s.signature.nodes.size() * sizeof(Node) +
                    s.signature.slots.size() * sizeof(TensorMeta);
  if (s.program)
    sum += s.program->bytes();
  for (const CaptureSpec &capture : s.signature.captures) {
    sum += sizeof capture;
    if (!capture.held)
      continue;
    std::size_t bytes = c10::elementSize(capture.meta.dtype);
    for (const std::int64_t size : capture.meta.sizes)
      bytes *= static_cast<std::size_t>(size);
    sum += bytes;
  }
  return sum;
}

} // namespace tracehost
