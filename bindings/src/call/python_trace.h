#pragma once

#include "call/argument_containers.h"
#include "call/python_call.h"
#include "hooks/fake_tensors.h"
#include "observe/allocations.h"
#include "observe/recorder.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// A miss of a call from Python: its Signature, its body's run under the tracer, and what the
/// tracer asks meanwhile.
///
/// Problem: the graph has the ops of the body alone. A hit must also return, store and change what
/// the body did. Where a guard no longer holds, a call must not hit.
///
/// | Step | Where |
/// |---|---|
/// | 1. Arguments become what was declared, arrays become tensors | adapt(), python_arguments.cpp |
/// | 2. The call's Signature | flatten(), python_signature.cpp |
/// | 3. Users' types become the common supertype (reduce_retracing) | join(), python_types.cpp |
/// | 4. The body runs once; the Recorder observes it | run(), python_trace.cpp |
/// | 5. The tracer asks for lines and for paths of captures | python_frontend.cpp |
/// | 6. Changed lists and dicts among the arguments | python_containers.cpp |
/// | 7. The result and what was stored become outputs of the graph | python_results.cpp |
/// | 8. What was observed becomes guards and stores | finish(), python_trace.cpp |
/// | 9. Warnings, after the trace is published | python_warnings.cpp |
///
/// For example, `self.n += 1; return x * self.scale` reads two slots and stores one: the guards are
/// `self.scale` and `self.n`, and the new `self.n` is a hidden output that each hit stores.

namespace tracehost::python {

class NumbersLeft;
struct MadeObjects;
struct Returnable;

/// Requires: GIL held when it is made; members that the core calls without the GIL take it.
class PythonTrace final : public TraceSession, public trace::Frontend {
public:
  explicit PythonTrace(PythonCall &call)
      : call_(call), function_(call.function_), bound_(call.bound_) {}
  PythonTrace(const PythonTrace &) = delete;
  PythonTrace &operator=(const PythonTrace &) = delete;

  /// After bind(), for a request: TensorSpecs become fake tensors, no op is run for real.
  /// `fake_tensors` outlives the call.
  void use(FakeTensors &fake_tensors);
  /// By slot, the names of the specs that a request was made of. After flatten().
  std::vector<std::string> spec_names() const;
  /// After Outcome::traced: the body's result, a new reference.
  PyObject *take_result() { return result_.release(); }
  /// After a trace: shows the SideEffectWarnings, one a slot and Function, and the TraceWarnings of
  /// baked values, one a line and Function. False if a filter made one an exception.
  bool warn();
  /// After a graph was found to be wrong: shows a TraceWarning, one an op and Function. False if a
  /// filter made it an exception.
  bool warn_mismatch();
  /// Traces have stopped to pay (NegativeCache), which is said once a Function.
  bool warn_skips();
  /// The Signature of the arguments, for comparisons with a trace under way.
  Signature signature();

  bool adapt() override;
  void missed() override;
  void before_trace(const Signature &signature) override;
  Signature flatten(std::vector<at::Tensor> &slots) override;
  Surroundings surroundings(const Specialization &specialization) override;
  void current_guards(const Specialization &specialization, Signature &signature) override;
  std::vector<at::Tensor> captures(const Specialization &specialization) override;
  bool join(Signature &earlier, Signature &signature) override;
  void adopt(const Signature &signature, std::vector<at::Tensor> &slots) override;
  BodyResult run() override;
  std::shared_ptr<FrontEndState> finish(Signature &signature, const trace::Traced &traced) override;
  std::optional<BesideResult> run_beside(const Specialization &served) override;
  bool alone() override;
  trace::Frontend &frontend() override { return *this; }
  void blocking(const std::function<void()> &wait) override;
  Site caller() override { return here(); }
  bool is_exchangeable(std::size_t node) override;
  std::string expression(const std::string &where) override;
  std::string current_error() override;
  bool is_exit() override;
  bool has_result() const override { return static_cast<bool>(result_); }
  /// Whether run() has begun.
  bool has_run() const { return recorder_ != nullptr; }

  Site here() override;
  trace::Instruction instruction() override;
  Site catches() override;
  bool acts_on_raise() override;
  std::string why_not_staged() override;
  bool traces_reads() const override { return function_.traces_reads; }
  bool goes_on(trace::Rejection why) override;
  bool serves_once(const std::string &what) override;
  std::string capture_path(const at::Tensor &tensor) override;
  std::string path_of(const at::Tensor &tensor) override;
  bool without_data() const override { return request_ != nullptr; }
  [[noreturn]] void reject(trace::Rejection why, const std::string &message) override;

private:
  /// What `guard` would be for `t` now, or was before if this call's trace read it.
  GradRead current_grad(const GradRead &read, const at::Tensor &t) const;
  bool warn_side_effects();
  bool warn_once(const std::vector<trace::NotedLine> &list, const std::string &kind,
                 std::string_view message);
  PyObject *call_with_placeholders();
  Signature flatten_as(UserValues &values, Flattened &found);
  Flattened cast_to(const Signature &specialization, Signature &signature);
  Flattened retype(Signature &signature, const std::vector<PyObject *> &types);
  void check_same_tensors(const Flattened &before, const Signature &signature) const;
  bool has_own_attributes(PyObject *tensor) const;
  bool has_attributes_of_a_call(PyObject *tensor) const;
  BodyResult recorded_result(NumbersLeft &numbers);
  void leave_numbers(NumbersLeft &numbers);
  std::string fake_tensors_left();
  void return_as_eager();
  void return_as_eager(BodyResult &result);
  void describe(BodyResult &result);
  std::vector<OutputSpec *> trees(BodyResult &result);
  void drop_held(const MadeObjects &made, BodyResult &result);
  void check_arguments_unchanged();
  [[noreturn]] void reject_change(std::size_t parameter);
  Returnable returnable();
  Returnable known_objects();
  ReachedObjects::As reach(PyObject *object) const;
  std::vector<PyObject *> given_at_trace() const;
  std::vector<PyObject *> containers_at_trace() const;
  void compare_containers();
  void repeat_changes(MadeObjects &made, BodyResult &result);
  void repeat_change(ArgumentContainers::Container &container, MadeObjects &made,
                     BodyResult &result);
  void change_as_eager(RunValues &values, const std::vector<bool> &differ);
  void note_given(BodyResult &result);
  bool can_be_wrapped(PyObject *tensor) const;
  std::uint32_t as_outputs(PyObject *value, const std::string &name, MadeObjects &made,
                           std::vector<at::Tensor> &outputs);
  void repeat(Rebound &rebound, MadeObjects &made, std::vector<at::Tensor> &outputs);
  void restore();

  PythonCall &call_;
  PythonFunction &function_;       ///< call_'s
  Bound &bound_;                   ///< call_'s
  FakeTensors *request_ = nullptr; ///< a request's; null: the call has example data
  bool is_miss_ = false;           ///< of a call: no request, no question what a call would do
  Owned result_;                   ///< null: the body has not returned
  std::unique_ptr<Recorder> recorder_;
  std::optional<Allocations> allocations_;
  Flattened flattened_;
  std::optional<ArgumentContainers> containers_; ///< as they were before the body ran
  OwnedContainerUses uses_;
  std::vector<PyObject *> containers_before_; ///< those of the arguments; borrowed from containers_
  ReachedObjects reached_;
  std::vector<OutputSpec> stored_; ///< what later calls store: trees from 1 on
  UserValues values_;              ///< what users' types make of their objects
  std::vector<Node> nodes_;        ///< of the arguments before the body ran
  std::vector<TensorMeta> outputs_;
  std::vector<SideEffect> side_effects_;
  std::vector<trace::NotedLine> draws_, edited_, caught_, unknown_;
  /// How paths through objects begin whose types give their tensors: these are inputs as such.
  std::vector<std::string> gives_tensors_;
  std::vector<TensorMeta> capture_metas_; ///< of the captures, before the body changed them
  /// What the body read, of tensors that it may have changed since.
  std::vector<std::pair<at::Tensor, GradState>> grads_read_;
};

/// The metadata of a tensor, with its class.
TensorMeta meta_of(PyObject *tensor);
/// A tensor's Python object; borrowed, null: none yet.
PyObject *object_of(const at::Tensor &t);

/// True if a trace of `function` with an equal signature is under way on this thread, innermost or
/// outer. Endless recursion is found this way, and raises.
bool is_being_traced(const PythonFunction &function, Signature signature);
bool is_being_traced(const PythonFunction &function);

} // namespace tracehost::python
