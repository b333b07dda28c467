#pragma once

#include "event/event.h"
#include "program/output_spec.h"
#include "program/program.h"
#include "signature/signature.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace tracehost {

/// What a front end keeps with a Specialization: how to read captures and watched slots again.
class FrontEndState {
public:
  virtual ~FrontEndState() = default;
};

/// One Signature with its Program. Immutable once published, but for the counters.
struct Specialization {
  Signature signature;
  std::unique_ptr<Program> program;
  OutputSpec outputs;
  std::shared_ptr<FrontEndState> front_end; ///< owned here, understood by the Body that made it
  Site first_call;
  std::uint64_t trace_ns = 0;
  std::uint64_t number = 0; ///< counts the Function's traces: 1 for the first
  std::vector<PinnedSize> pinned;

  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> last_used{0}; ///< the Function's call number
};
using SpecializationRef = std::shared_ptr<Specialization>;

} // namespace tracehost
