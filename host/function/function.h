#pragma once

#include "cache/cache.h"
#include "cache/flights.h"
#include "capture/pool.h"
#include "event/event.h"
#include "function/body.h"
#include "function/negative_cache.h"
#include "validate/check.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The call itself (docs/internals/call-path.md).
///
/// Hit: verify against the Specialization that served last, unless a narrower one serves, too; then
/// against the others, most specific first; run its Program. Miss: signature -> sizes made dynamic
/// by earlier traces (reduce_retracing) -> flight -> run the body once under the tracer, whose
/// result *is* the call's -> Program -> compared with the body -> publish last -> event. An
/// exception leaves the cache as it was.

namespace tracehost {

/// A Function without its front end: Python's (bindings/) and the C++ API's hold one.
class FunctionCore {
public:
  /// The clock that measures how long traces take, which eviction uses.
  using Clock = std::chrono::steady_clock::time_point (*)();
  /// `sink` outlives the Function.
  FunctionCore(Identity identity, std::size_t limit, Sink &sink, validate::Policy policy = {},
               Clock clock = &std::chrono::steady_clock::now);

  enum class Outcome {
    hit,      ///< `operands` has the outputs, `served` has their structure
    traced,   ///< `body` ran; it has kept the result, `operands` is empty
    went_on,  ///< as traced, but the trace was abandoned or wrong, and nothing is published
    beside,   ///< as traced, but there was a graph, with which it was compared
    undone,   ///< an op of the graph has failed; all is as before the call. The body is to run
    unserved, ///< a miss that is not traced, by the call's stance or by what earlier traces gave
  };
  /// Requires: no trace active on this thread (calls inside a trace are inlined by the front end).
  /// May run user code: Body::run, and `__eq__`.
  Outcome call(Body &body, Operands &operands, SpecializationRef &served);

  /// The most specific Specialization whose Signature takes the call's, traced first if there is
  /// none: for calls whose tensors only stand for others (Body::run makes no real result). Such
  /// a trace is not counted by the retrace detector.
  SpecializationRef request(Body &body);

  struct Explanation {
    SpecializationRef served;            ///< null: a miss
    SpecializationRef nearest;           ///< on a miss; null if there is none
    std::vector<Difference> differences; ///< the call's from `nearest`
    Signature signature;                 ///< of the call
    std::uint32_t skips = 0;             ///< on a miss: such calls that run the body
  };
  /// What a call would do; runs nothing, counts nothing.
  Explanation explain(Body &body);

  const std::shared_ptr<Counters> &counters() const { return counters_; }
  Cache &cache() { return cache_; }
  void clear();

private:
  using Lookup = std::function<SpecializationRef()>;
  /// What a miss works with.
  struct Missed {
    Signature signature; ///< of the call
    std::vector<at::Tensor> slots;
    bool counted = true; ///< a call's
  };
  /// A trace, before it is published.
  struct Made {
    SpecializationRef specialization;
    std::vector<std::string> notes;
    validate::Verdict verdict;
  };

  static bool runs_body(const Body &body, Specialization &one);
  void end_pause(const Body &body, Specialization &served) const;
  void note_abandoned(const Body &body, const Missed &missed);
  void pause(const Body &body, const Missed &missed);
  static void note_failed_check(Body &body, Operands &operands);
  SpecializationRef look_up(Body &body, Operands &operands);
  SpecializationRef look_up(Body &body, const Signature &signature);
  Outcome hit(Body &body, Operands &operands, const SpecializationRef &served);
  Outcome hit_beside(Body &body, Operands &operands, const SpecializationRef &served);
  Outcome miss(Body &body, Operands &operands, SpecializationRef &served);
  SpecializationRef obtain(Body &body, const Missed &missed, const Lookup &look_up, bool &traced);
  using DynamicCaptures = std::vector<trace::DynamicDimensions::Capture>;
  Signature generalized(Body &body, const Signature &signature, std::vector<at::Tensor> &slots,
                        DynamicCaptures &captures);
  Made trace(Body &body, Signature signature, const Missed &missed,
             const std::vector<at::Tensor> &slots, DynamicCaptures captures);
  void optimize(const Signature &signature, ProgramOptions &options); // graph_news.cpp
  // Validation: validation.cpp.
  bool validates(const Missed &missed) const;
  validate::Verdict validate(Body &body, const Specialization &made,
                             const std::vector<at::Tensor> &results,
                             validate::Originals &originals);
  void judge(Body &body, const Signature &called, const Specialization &wrong,
             validate::Verdict verdict, std::uint64_t hits);
  Nearest nearest(Body &body, const Signature &signature, SpecializationRef &found,
                  std::vector<std::uint64_t> *alike = nullptr, const Signature *made = nullptr);
  void back_off(Body &body, const Missed &missed, TraceEvent &event);
  void publish(Body &body, const Missed &missed, SpecializationRef made,
               std::vector<std::string> notes);

  std::shared_ptr<Counters> counters_;
  Cache cache_;
  Flights flights_;
  NegativeCache negative_cache_;
  const std::shared_ptr<capture::Pools> pools_ = std::make_shared<capture::Pools>();
  const validate::Policy policy_;
  const Clock clock_;
  Sink &sink_;
  std::atomic<std::uint64_t> calls_{0}; ///< stamps Specialization::last_used
  std::atomic<std::size_t> last_{0};    ///< index of the Specialization that served last; a hint
};

} // namespace tracehost
