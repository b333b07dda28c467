#pragma once

#include "cache/specialization.h"
#include "function/stance.h"
#include "signature/signature.h"
#include "trace/tracer.h"

#include <algorithm>
#include <functional>
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

/// What running the body gave.
struct BodyResult {
  OutputSpec outputs;
  /// In the order of the OutputSpec's slots; those past them are hidden, for the front end.
  std::vector<at::Tensor> tensors;
};

/// What running it beside its graph gave.
struct BesideResult {
  std::vector<at::Tensor> tensors; ///< in the order of the Specialization's OutputSpec
  std::string
      different; ///< what of the result is not as that says: `output[1], 3 in the graph ...`
};

/// One call of a Function: its arguments, how they are compared with a Specialization, and the body
/// that it runs. A Python callable's (bindings/src/call/), or a fake in tests. The Function knows
/// no more of either than this.
class Body {
public:
  virtual ~Body() = default;

  // The front end sets these before the call.
  Context context;
  Stance stance = Stance::trace;
  /// What may make a dynamic size exact again: less where the user asked for it (input_signature).
  trace::Pins pins = trace::Pins::all;

  // The Function sets these during the call.
  /// Specializations that verify, and whose graph found another number while it ran.
  std::vector<SpecializationRef> failed;
  std::shared_ptr<Begun> begun; ///< the run of the last of them; null: none, or it is of no use
  bool has_failed(const Specialization &one) const {
    return !failed.empty() && std::any_of(failed.begin(), failed.end(),
                                          [&](const auto &f) { return f.get() == &one; });
  }
  std::string refusal;                      ///< after Outcome::went_on: why there is no graph
  std::unique_ptr<const Mismatch> mismatch; ///< after the call: its graph was wrong

  /// Hot. Whether `specialization` serves the call. Then `stack` holds its inputs: slots,
  /// captures. Otherwise `stack` is as before. No allocation but the stack's growth, nothing
  /// formatted.
  virtual bool verify(Specialization &specialization, torch::jit::Stack &stack) = 0;

  /// At a miss, before flatten: makes of the arguments what a declared signature has them as. True
  /// if one is another object now, so that a Specialization may serve after all. Throws on what
  /// does not fit. May run user code.
  virtual bool adapt() { return false; }
  /// No Specialization serves the call: the last moment to leave it, by an exception.
  virtual void missed() {}

  /// The call's Signature, without watched slots and captures; declared sizes are relaxed in it.
  /// Throws on what can't be compared.
  virtual Signature flatten(std::vector<at::Tensor> &slots) = 0;

  /// What environment() would show of `specialization`, as far as that is told without texts.
  /// Cheap.
  enum class Surroundings : std::uint8_t { same, changed, unknown };
  virtual Surroundings surroundings(const Specialization & /*specialization*/) {
    return Surroundings::unknown;
  }

  /// Completes `signature` with `specialization`'s watched slots and captures as they are now.
  virtual void environment(const Specialization &specialization, Signature &signature) = 0;

  /// The tensors of `specialization`'s captures as they are now, in the order of its Signature;
  /// undefined where a path is broken, or there is none.
  virtual std::vector<at::Tensor> captures(const Specialization & /*specialization*/) { return {}; }

  /// Under reduce_retracing: puts the common supertypes of the user's types that differ in their
  /// place, in `earlier` and in `signature`, and the sizes that `signature` has with them in both.
  /// False if some have none. Runs user code.
  virtual bool join(Signature & /*earlier*/, Signature & /*signature*/) { return true; }
  /// The call is one of `signature`'s user types from now on; `slots` are its tensors then.
  virtual void adopt(const Signature & /*signature*/, std::vector<at::Tensor> & /*slots*/) {}

  /// Runs the body once, for real, with the call's own arguments. Inside trace::trace().
  virtual BodyResult run() = 0;

  /// After the trace: what it depends on beyond its arguments. Fills signature.watched and
  /// .captures; throws if the trace must be refused (a slot was rebound, an argument mutated).
  virtual std::shared_ptr<FrontEndState> finish(Signature &signature,
                                                const trace::Traced &traced) = 0;

  /// Runs a hit's Program; a front end may drop a lock of its own around it.
  /// `begun`: as of Program::run.
  virtual void execute(const Specialization &specialization, torch::jit::Stack &stack,
                       Begun *begun = nullptr) {
    specialization.program->run(stack, begun);
  }

  /// Runs the body as it is, outside of any trace, for a call that `served` serves, and keeps its
  /// result. nullopt: it can't be run so.
  virtual std::optional<BesideResult> run_beside(const Specialization & /*served*/) {
    return std::nullopt;
  }

  virtual trace::Frontend &frontend() = 0;

  /// Whether run() has the body's result: an exception since is not the body's own.
  virtual bool has_result() const { return false; }
  /// Whether no other thread runs what could draw random numbers.
  virtual bool alone() { return false; }
  /// The line of the call, for events.
  virtual Site caller() = 0;
  /// Type and message of the exception being handled, for events.
  virtual std::string current_error() = 0;
};

} // namespace tracehost
