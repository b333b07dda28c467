#pragma once

#include "cache/specialization.h"
#include "function/stance.h"
#include "function/trace_session.h"
#include "signature/difference.h"
#include "signature/signature.h"
#include "tape/operands.h"
#include "trace/tracer.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tracehost {

/// How a graph was found to be wrong.
struct Mismatch {
  std::string what;       ///< `output, element (1, 2): 3.0 in the graph, 1.0 in the body`
  std::string culprit;    ///< `aten::mul at net.py:12`; may be empty
  std::uint64_t hits = 0; ///< that it had served
};

/// One call of a Function: its arguments, how they are compared with a Specialization, and the body
/// that it runs. A Python callable's (bindings/src/call/), or a fake in tests. The Function knows
/// no more of either than this.
class Body {
public:
  virtual ~Body() = default;
  /// Whether the body runs in place of a graph whose op threw `error`, and that has no effect.
  virtual bool runs_instead(const std::exception_ptr & /*error*/) { return false; }

  // The front end sets these before the call.
  Context context;
  Stance stance = Stance::trace;
  /// What may make a dynamic size exact again: less where the user asked for it (input_signature).
  trace::MaySpecialize may_specialize = trace::MaySpecialize::all;

  // The Function sets these during the call.
  /// Specializations that verify, and whose graph found another number while it ran.
  std::vector<SpecializationRef> failed;
  std::string failed_check; ///< which check of one of those, and the value; for fail_on_miss alone
  std::optional<Found> found; ///< by the run that a check has ended last
  bool has_failed(const Specialization &one) const {
    return !failed.empty() && std::any_of(failed.begin(), failed.end(),
                                          [&](const auto &f) { return f.get() == &one; });
  }
  /// Its trace has sizes or types that other calls have: without a graph the call is traced as it
  /// is, the next time.
  bool wider = false;
  std::string rejection;                    ///< after Outcome::went_on: why there is no graph
  std::unique_ptr<const Mismatch> mismatch; ///< after the call: its graph was wrong
  /// After Outcome::traced: how many calls with this Signature run the body from now on.
  std::uint32_t skips = 0;
  std::vector<Difference> differing; ///< where `skips`: the call's from the nearest graph
  /// The front end sets this in Frontend::goes_on(): why and where the trace was abandoned.
  struct Abandoned {
    trace::Rejection why;
    std::string where;
  };
  std::optional<Abandoned> abandoned;

  /// Whether the call has its result where its trace can't be right for a reason `why`. A Function
  /// that serves calls raises for no value: a trace beyond the limits, and one for another outcome
  /// of a check, end as plain Python. So does one that was made for more than the call.
  bool goes_on(trace::Rejection why) const {
    return stance == Stance::eager_on_error || why == trace::Rejection::limit || !failed.empty() ||
           wider;
  }

  /// Hot. Whether `specialization` serves the call. Then `operands` holds its inputs: slots,
  /// captures. Otherwise `operands` is as before. No allocation but its growth, nothing formatted.
  virtual bool verify(Specialization &specialization, Operands &operands) = 0;

  /// Runs a hit's Program; a front end may drop a lock of its own around it.
  virtual void execute(const Specialization &specialization, Operands &operands) {
    specialization.program->run(operands);
  }

  /// What a miss asks besides. Made by the call's first miss; lives as long as the call.
  virtual TraceSession &session() = 0;
};

} // namespace tracehost
