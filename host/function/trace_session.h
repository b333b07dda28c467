#pragma once

#include "cache/specialization.h"
#include "signature/signature.h"
#include "trace/tracer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tracehost {

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

/// What a miss asks of the call: its Signature, its surroundings, and the run of its body under the
/// tracer. A hit makes none.
///
///     adapt -> missed -> flatten -> [join, adopt] -> trace::trace(run) -> finish
class TraceSession {
public:
  virtual ~TraceSession() = default;

  /// Before flatten: makes of the arguments what a declared signature has them as. True
  /// if one is another object now, so that a Specialization may serve after all. Throws on what
  /// does not fit. May run user code.
  virtual bool adapt() { return false; }
  /// No Specialization serves the call: the last moment to leave it, by an exception.
  virtual void missed() {}

  /// A trace of the call, which has this Signature, is to begin: the last moment to forbid it, by
  /// an exception. Other threads may wait for the trace.
  virtual void before_trace(const Signature & /*signature*/) {}

  /// The call's Signature, without guarded slots and captures. Sizes declared as any are dynamic in
  /// it. Throws on arguments that can't be compared.
  virtual Signature flatten(std::vector<at::Tensor> &slots) = 0;

  /// What current_guards() would show of `specialization`, as far as it can be found without texts.
  /// Cheap.
  enum class Surroundings : std::uint8_t { same, changed, unknown };
  virtual Surroundings surroundings(const Specialization & /*specialization*/) {
    return Surroundings::unknown;
  }

  /// Completes `signature` with `specialization`'s guarded slots and captures as they are now.
  virtual void current_guards(const Specialization &specialization, Signature &signature) = 0;

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

  /// After the trace: what it depends on beyond its arguments. Fills signature.guarded and
  /// .captures; throws if the trace is rejected (a slot was rebound, an argument mutated).
  virtual std::shared_ptr<FrontEndState> finish(Signature &signature,
                                                const trace::Traced &traced) = 0;

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
  /// Whether reduce_retracing compares the object at this node of the call's Signature by its class
  /// alone.
  virtual bool is_exchangeable(std::size_t /*node*/) { return false; }
  /// The source of what needs a number at the line `net.py:12`, for events: `int(level)`. Empty:
  /// not known.
  virtual std::string expression(const std::string & /*where*/) { return {}; }
  /// Type and message of the exception being handled, for events.
  virtual std::string current_error() = 0;
  /// Whether the exception being handled ends the program, as Ctrl-C does: no call continues behind
  /// it.
  virtual bool is_exit() { return false; }
};

} // namespace tracehost
