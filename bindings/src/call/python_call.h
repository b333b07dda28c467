#pragma once

#include "base/object.h"
#include "call/argument_containers.h"
#include "call/python_function.h"
#include "guards/environment.h"
#include "hooks/fake_tensors.h"
#include "observe/births.h"
#include "observe/recorder.h"
#include "pytree/binder.h"
#include "pytree/pytree.h"
#include "pytree/user_value.h"

#include <Python.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

class NumbersLeft;
struct Returnable;

/// One call from Python: the core's Body for it. Lives on the C stack of that call; the
/// parts that only a miss needs are made by the miss.
///
/// Requires: GIL held at the call; members that the core calls without it take it.
class PythonCall final : public Body, public trace::Frontend {
public:
  PythonCall(PythonFunction &function, PyObject *const *args, std::size_t nargsf, PyObject *kwnames)
      : function_(function), args_(args), positional_(PyVectorcall_NARGS(nargsf)),
        kwnames_(kwnames) {}
  ~PythonCall() override;

  /// False with a TypeError set if the arguments do not fit the parameters.
  bool bind();
  /// Makes a new reference to what stands in for a value of a parameter; throws.
  using Conversion = std::function<Owned(std::size_t parameter, PyObject *value)>;
  /// Slow. Puts other values in place of the arguments, defaults among them: all that follows, the
  /// body too, sees only those, which live as long as the call. False if none is another object.
  bool convert(const Conversion &conversion);
  /// convert() to tensors of what numpy has made. A Function without input_signature remembers that
  /// it is called so.
  bool convert_arrays();
  /// Calls the body. A new reference, or null with an error set.
  PyObject *call_body();
  /// After bind(), for a request: TensorSpecs become stand-ins, no op is run for real. `stand_ins`
  /// outlives the call.
  void use(StandIns &stand_ins);
  /// By slot, the names of the specs that a request was made of. After flatten().
  std::vector<std::string> spec_names() const;
  /// After a hit: the objects that paths start from, then those from outside that its result holds,
  /// by their numbers; borrowed.
  std::span<PyObject *const> given() const { return found_.roots; }
  /// After a hit: the lists and dicts of the arguments, then other containers from outside, that
  /// its result holds, by their numbers.
  std::span<PyObject *const> containers(const Specialization &served) {
    const auto &state = static_cast<const PythonState &>(*served.front_end);
    return state.containers || state.containers_reached ? find_containers(served)
                                                        : std::span<PyObject *const>();
  }
  /// After Outcome::traced: the body's result, a new reference.
  PyObject *take_result() { return std::exchange(miss().result, nullptr); }
  /// After a trace: shows the SideEffectWarnings, one a slot and Function, and the TraceWarnings of
  /// baked values, one a line and Function. False if a filter made one an exception.
  bool warn();
  /// After a graph was found to be wrong: shows a TraceWarning, one an op and Function. False if a
  /// filter made it an exception.
  bool warn_mismatch();
  /// The Signature of the arguments, for comparisons with a trace under way.
  Signature signature();

  bool verify(Specialization &specialization, torch::jit::Stack &stack) override;
  bool adapt() override;
  void missed() override;
  Signature flatten(std::vector<at::Tensor> &slots) override;
  Surroundings surroundings(const Specialization &specialization) override;
  void environment(const Specialization &specialization, Signature &signature) override;
  std::vector<at::Tensor> captures(const Specialization &specialization) override;
  bool join(Signature &earlier, Signature &signature) override;
  void adopt(const Signature &signature, std::vector<at::Tensor> &slots) override;
  BodyResult run() override;
  std::shared_ptr<FrontEndState> finish(Signature &signature, const trace::Traced &traced) override;
  void execute(const Specialization &specialization, torch::jit::Stack &stack,
               Begun *begun = nullptr) override;
  std::optional<BesideResult> run_beside(const Specialization &served) override;
  bool alone() override;
  trace::Frontend &frontend() override { return *this; }
  void blocking(const std::function<void()> &wait) override;
  Site caller() override;
  std::string current_error() override;
  bool has_result() const override { return miss_ && miss_->result; }
  /// Whether run() has begun.
  bool has_run() const { return miss_ && miss_->recorder; }

  Site here() override;
  trace::Instruction instruction() override;
  Site catches() override;
  std::string why_not_staged() override;
  trace::ValueReads value_reads() const override { return function_.value_reads; }
  bool goes_on() const override { return stance == Stance::eager_on_error; }
  std::string capture_path(const at::Tensor &tensor) override;
  std::string path_of(const at::Tensor &tensor) override;
  bool without_data() const override { return request_ != nullptr; }
  [[noreturn]] void refuse(trace::Refusal why, const std::string &message) override;

private:
  bool captures_match(const Specialization &specialization, const PythonState &state,
                      std::span<PyObject *const> tensors);
  bool are_absent(const std::vector<PyObject *> &names) const;
  static bool conditions_hold(const Signature &signature, const PythonState &state,
                              std::span<PyObject *const> slots);
  bool values_hold(const Signature &signature, const PythonState &state) const;
  std::optional<ValueGuard> current_value(const ValueGuard &guard, const Specialization &of,
                                          const std::vector<PyObject *> &slots,
                                          const std::vector<PyObject *> &captures) const;
  bool grads_hold(const Signature &signature, const PythonState &state) const;
  /// Of an input of `of`, as it is now or, if this call's trace read it, was before.
  std::optional<GradRead> current_grad(const GradRead &read, const Specialization &of,
                                       const std::vector<PyObject *> &captures) const;
  bool warn_side_effects();
  bool warn_once(const std::vector<trace::BakedRead> &list, const std::string &kind,
                 std::string_view message);
  bool reads_match(const Signature &signature, const PythonState &state);
  static bool captured_reads_match(const Signature &signature, const PythonState &state);
  PyObject *call_with_placeholders();
  Signature flatten_as(UserValues &values, Flattened &found);
  Flattened cast_to(const Signature &specialization, Signature &signature);
  Flattened retype(Signature &signature, const std::vector<PyObject *> &types);
  void check_same_tensors(const Flattened &before, const Signature &signature) const;
  bool has_own_attributes(PyObject *tensor) const;
  void leave_numbers(NumbersLeft &numbers);
  std::string stand_ins_left();
  void return_as_eager();
  void return_as_eager(const BodyResult &result);
  void check_arguments_unchanged();
  [[noreturn]] void refuse_change(std::size_t parameter);
  std::span<PyObject *const> find_containers(const Specialization &served);
  Returnable returnable();
  ReachedObjects::As reach(PyObject *object) const;
  std::vector<PyObject *> given_at_trace() const;
  std::vector<PyObject *> containers_at_trace() const;
  void compare_containers();
  void repeat_changes(BodyResult &result);
  void repeat_change(ArgumentContainers::Container &container, BodyResult &result);
  void note_given(OutputSpec &outputs);
  void find_handed_out(const Specialization &served);
  bool can_be_wrapped(PyObject *tensor) const;
  void repeat(Rebound &rebound, std::vector<at::Tensor> &outputs);
  void put_back();
  static void run_program(const Specialization &specialization, PythonState &state,
                          torch::jit::Stack &stack, Begun *begun);

  PythonFunction &function_;
  PyObject *const *args_;
  std::size_t positional_;
  PyObject *kwnames_;
  Bound bound_;
  /// After convert(): what args_ and kwnames_ then point to.
  struct Converted {
    std::vector<Owned> values;
    std::vector<PyObject *> args;
    Owned names;
  };
  std::unique_ptr<Converted> converted_;
  Collected found_;
  std::vector<Owned> held_;            ///< objects that the call has found for its result
  std::vector<PyObject *> containers_; ///< of find_containers()
  const Specialization *containers_of_ = nullptr; ///< whose these are; null: not called yet

  StandIns *request_ = nullptr; ///< a request's; null: the call has example data

  /// What only a miss needs.
  struct Miss {
    ~Miss() { Py_XDECREF(result); }

    PyObject *result = nullptr; ///< strong
    std::unique_ptr<Recorder> recorder;
    std::optional<Births> births;
    Flattened flattened;
    std::optional<ArgumentContainers> containers; ///< as they were before the body ran
    std::optional<ContainerUses> uses;
    std::vector<PyObject *>
        containers_before; ///< those of the arguments; borrowed from `containers`
    ReachedObjects reached;
    UserValues values;       ///< what users' types make of their objects
    std::vector<Node> nodes; ///< of the arguments before the body ran
    std::vector<TensorMeta> outputs;
    std::vector<SideEffect> side_effects;
    std::vector<trace::BakedRead> baked, draws, caught, unknown;
    /// How paths through objects begin whose types give their tensors: these are inputs as such.
    std::vector<std::string> gives_tensors;
    std::vector<TensorMeta> capture_metas; ///< of the captures, before the body changed them
    /// What the body read, of tensors that it may have changed since.
    std::vector<std::pair<at::Tensor, ValueGuard>> read;
    std::vector<std::pair<at::Tensor, GradState>> grads_read;
  };
  Miss &miss() const {
    if (!miss_)
      miss_ = std::make_unique<Miss>();
    return *miss_;
  }
  mutable std::unique_ptr<Miss> miss_; ///< made when needed first
};

/// Of a tensor with its class.
TensorMeta meta_of(PyObject *tensor);
/// A tensor's Python object; borrowed, null: none yet.
PyObject *object_of(const at::Tensor &t);

/// The Function that this thread traces innermost, and outer ones: to refuse endless recursion.
/// True if a trace of `function` with an equal signature is under way on this thread.
bool is_being_traced(const PythonFunction &function, Signature signature);
bool is_being_traced(const PythonFunction &function);

} // namespace tracehost::python
