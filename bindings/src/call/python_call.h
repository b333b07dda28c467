#pragma once

#include "base/object.h"
#include "call/python_function.h"
#include "pytree/binder.h"
#include "pytree/pytree.h"
#include "pytree/results.h"

#include <Python.h>
#include <torch/csrc/autograd/python_variable.h>

#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace tracehost::python {

class PythonTrace;

/// The inputs of a graph: a tensor by its index among the slots and then the captures.
struct GraphInputs {
  std::span<PyObject *const> slots, captures;
  const at::Tensor &operator()(std::uint32_t index) const {
    return THPVariable_Unpack(index < slots.size() ? slots[index] : captures[index - slots.size()]);
  }
};

/// One call from Python: the core's Body for it, on the C stack of that call. python_call.cpp
/// describes how the hot call runs. What only a miss needs is in a PythonTrace, which the miss
/// makes.
///
/// Requires for all: GIL held.
class PythonCall final : public Body {
public:
  PythonCall(PythonFunction &function, PyObject *const *args, std::size_t nargsf,
             PyObject *kwnames);
  ~PythonCall() override;

  /// False with a TypeError set if the arguments do not fit the parameters.
  bool bind() {
    return function_.binder.bind(args_, positional_, kwnames_, bound_) || reject_arguments();
  }
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
  /// After a hit: its result, a new reference, or null with a Python error set.
  PyObject *result_of(const Specialization &served, Operands &outputs);
  bool runs_instead(const std::exception_ptr &error) override;
  bool verify(Specialization &specialization, Operands &operands) override;
  void execute(const Specialization &specialization, Operands &operands) override;
  TraceSession &session() override;
  /// session(), with what the bindings ask of it.
  PythonTrace &trace();
  /// Whether the body has been run under the tracer.
  bool has_run() const;
  bool is_forbidden = false; ///< the lock does not have it: it is an error in each stance

private:
  bool reject_arguments();
  bool captures_match(const Specialization &specialization, const PythonState &state,
                      std::span<PyObject *const> tensors);
  bool are_absent(const std::vector<PyObject *> &names) const;
  std::span<PyObject *const> find_containers(const Specialization &served);
  void find_handed_out(const Specialization &served);
  static void run_program(const Specialization &specialization, PythonState &state,
                          Operands &operands);

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
  std::vector<MadeOnce> made_;         ///< of the run: what its stores and its result share
  const Specialization *containers_of_ = nullptr; ///< whose these are; null: not called yet

  friend class PythonTrace;            // continues with what the call has found
  std::unique_ptr<PythonTrace> trace_; ///< null: no miss so far
};

} // namespace tracehost::python
