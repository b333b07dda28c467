#pragma once

#include "cache/cache.h"
#include "cache/flights.h"
#include "event/event.h"
#include "function/body.h"

#include <memory>

/// The call itself (DESIGN.md section 4).
///
/// Hit: verify against the Specialization that served last, then against the others, latest first;
/// run its Program. Miss: signature -> flight -> run the body once under the tracer, whose result
/// *is* the call's -> Program -> publish last -> event. An exception leaves the cache as it was.

namespace tracehost {

class Function {
public:
  /// `sink` outlives the Function.
  Function(Identity identity, std::size_t limit, Sink &sink);

  enum class Outcome {
    hit,    ///< `stack` has the outputs, `served` tells their structure
    traced, ///< `body` ran; it has kept the result, `stack` is empty
  };
  /// Requires: no trace active on this thread (calls inside a trace are inlined by the front end).
  /// May run user code: Body::run, and `__eq__`.
  Outcome call(Body &body, Request &request, torch::jit::Stack &stack, SpecializationRef &served);

  /// The Specialization that would serve the request, or null; runs nothing.
  SpecializationRef find(Body &body, Request &request);

  const std::shared_ptr<Counters> &counters() const { return counters_; }
  Cache &cache() { return cache_; }
  void clear();

private:
  SpecializationRef look_up(Body &body, Request &request, torch::jit::Stack &stack);
  Outcome hit(Body &body, torch::jit::Stack &stack, Specialization &served);
  Outcome miss(Body &body, Request &request, torch::jit::Stack &stack, SpecializationRef &served);
  SpecializationRef trace(Body &body, Request &request, Signature signature,
                          const std::vector<at::Tensor> &slots);
  void publish(Body &body, Request &request, SpecializationRef made);

  std::shared_ptr<Counters> counters_;
  Cache cache_;
  Flights flights_;
  Sink &sink_;
  std::atomic<std::uint64_t> calls_{0}; ///< stamps Specialization::last_used
  std::atomic<std::size_t> last_{0};    ///< index of the Specialization that served last; a hint
};

} // namespace tracehost
