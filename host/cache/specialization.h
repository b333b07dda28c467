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

/// What a front end keeps with a Specialization: how to read captures and guarded slots again.
class FrontEndState {
public:
  virtual ~FrontEndState() = default;
  /// Why the Specialization may serve its own call alone, a sentence; empty: it is published.
  std::string once;
  bool rebinds = false; ///< each run stores to slots that the body rebound
};

/// How often a Specialization was used, as far as it decides what to evict: see cache/eviction.h.
struct Use {
  std::uint64_t hits = 0; ///< Specialization::hits at `tick`
  std::uint64_t tick = 0; ///< the last interval in which it was used
  double frequency = 0;   ///< then
};

/// One Signature with its Program. Immutable once published, but for the counters.
struct Specialization {
  Signature signature;
  std::shared_ptr<const Program> program;
  OutputSpec outputs;
  std::shared_ptr<FrontEndState> front_end; ///< owned here, understood by the Body that made it
  Site first_call;
  std::uint64_t trace_ns = 0;
  std::uint64_t number = 0; ///< counts the Function's traces: 1 for the first
  std::vector<SpecializedSize> specialized;
  /// Where it raises, the body can still run in its place, which stores what eager has by then.
  bool raises_early = false;
  std::size_t bytes = 0; ///< estimated_bytes()

  /// Whether a run gives up the GIL. autocast's lock of casts must not be waited for with the GIL:
  /// forget_casts() in trace/modes.h. Nor must another device: how long a run waits for it depends
  /// on what others have queued there.
  bool runs_without_gil() const;

  /// By number: live ones whose user types are above, or below, its own. Before it is published.
  std::vector<std::uint64_t> above, below;

  std::atomic<std::uint64_t> hits{0};
  /// How many calls that it would serve run the body: its checks mostly fail (negative_cache.h).
  std::atomic<std::uint32_t> paused{0};
  /// Whether such a call is one of those. Counts the call.
  bool is_paused() {
    std::uint32_t left = paused.load(std::memory_order_relaxed);
    while (left && !paused.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
    }
    return left > 0;
  }
  std::atomic<std::uint64_t> last_used{0}; ///< the Function's call number
  Use use;                                 ///< the Cache's, under its lock
};
using SpecializationRef = std::shared_ptr<Specialization>;

/// Of its Program, the captures that it alone keeps alive, and its Signature.
std::size_t estimated_bytes(const Specialization &specialization);

} // namespace tracehost
