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

/// One call's arguments, as the front end that made it sees them.
class Request {
public:
  virtual ~Request() = default;
  Context context; ///< probed by the front end before the call
  /// What may make a relaxed size exact again: less where the user asked for it (input_signature).
  trace::Pins pins = trace::Pins::all;
  Stance stance = Stance::trace; ///< set by the front end before the call
  /// Those that verify, and that another number was found for while they ran.
  std::vector<SpecializationRef> failed;
  std::shared_ptr<Begun> begun; ///< the run of the last of them; null: none, or it is of no use
  bool has_failed(const Specialization &one) const {
    return !failed.empty() && std::any_of(failed.begin(), failed.end(),
                                          [&](const auto &f) { return f.get() == &one; });
  }
  std::string refusal;                      ///< after Outcome::went_on: why there is no graph
  std::unique_ptr<const Mismatch> mismatch; ///< after the call: its graph was wrong
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

/// What a Function runs, and how its calls are compared: a Python callable (bindings/), a fake in
/// tests. The Function knows no more of either than this.
class Body {
public:
  virtual ~Body() = default;

  /// Hot. Whether `specialization` serves the request. Then `stack` holds its inputs: slots,
  /// captures. Otherwise `stack` is as before. No allocation but the stack's growth, nothing
  /// formatted.
  virtual bool verify(Specialization &specialization, Request &request,
                      torch::jit::Stack &stack) = 0;

  /// At a miss, before flatten: makes of the arguments what a declared signature has them as. True
  /// if one is another object now, so that a Specialization may serve after all. Throws on what
  /// does not fit. May run user code.
  virtual bool adapt(Request & /*request*/) { return false; }
  /// No Specialization serves the call: the last moment to leave it, by an exception.
  virtual void missed(Request & /*request*/) {}

  /// The request's Signature, without watched slots and captures; declared sizes are relaxed in it.
  /// Throws on what can't be compared.
  virtual Signature flatten(Request &request, std::vector<at::Tensor> &slots) = 0;

  /// What environment() would show of `specialization`, as far as that is told without texts.
  /// Cheap.
  enum class Surroundings : std::uint8_t { same, changed, unknown };
  virtual Surroundings surroundings(const Specialization & /*specialization*/,
                                    Request & /*request*/) {
    return Surroundings::unknown;
  }

  /// Completes `signature` with `specialization`'s watched slots and captures as they are now.
  virtual void environment(const Specialization &specialization, Request &request,
                           Signature &signature) = 0;

  /// The tensors of `specialization`'s captures as they are now, in the order of its Signature;
  /// undefined where a path is broken, or there is none.
  virtual std::vector<at::Tensor> captures(const Specialization & /*specialization*/,
                                           Request & /*request*/) {
    return {};
  }

  /// Under reduce_retracing: puts the common supertypes of the user's types that differ in their
  /// place, in `earlier` and in `signature`, and the sizes that `signature` has with them in both.
  /// False if some have none. Runs user code.
  virtual bool join(Signature & /*earlier*/, Request & /*request*/, Signature & /*signature*/) {
    return true;
  }
  /// The call is one of `signature`'s user types from now on; `slots` are its tensors then.
  virtual void adopt(Request & /*request*/, const Signature & /*signature*/,
                     std::vector<at::Tensor> & /*slots*/) {}

  /// Runs the body once, for real, with the request's own arguments. Inside trace::trace().
  virtual BodyResult run(Request &request) = 0;

  /// After the trace: what it depends on beyond its arguments. Fills signature.watched and
  /// .captures; throws if the trace must be refused (a slot was rebound, an argument mutated).
  virtual std::shared_ptr<FrontEndState> finish(Request &request, Signature &signature,
                                                const trace::Traced &traced) = 0;

  /// Runs a hit's Program; a front end may drop a lock of its own around it.
  /// `begun`: as of Program::run.
  virtual void execute(const Specialization &specialization, torch::jit::Stack &stack,
                       Begun *begun = nullptr) {
    specialization.program->run(stack, begun);
  }

  /// Runs the body as it is, outside of any trace, for a call that `served` serves, and keeps its
  /// result. nullopt: it can't be run so.
  virtual std::optional<BesideResult> run_beside(Request & /*request*/,
                                                 const Specialization & /*served*/) {
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
