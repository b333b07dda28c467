#pragma once

#include "cache/specialization.h"
#include "call/python_call.h"
#include "event/event.h"

#include <pybind11/pybind11.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tracehost::python {

/// For messages: without a device where that is the CPU.
TensorSpec spec_of(const TensorMeta &meta);

/// One Specialization to be called by itself: what `tracehost.ConcreteFunction` is made of. It has
/// no reference to the Function it came from, and outlives it.
///
/// A call binds its arguments to the *structured* parameters first: those of the Python function,
/// `*args` and `**kwargs` spread, all required, Python values equal to the traced ones. If they
/// don't fit, to the *flat* ones: one tensor for each slot, by place or by name.
///
///     def f(x, k, *xs)    f(s, 7, s, s)     structured: x, k, xs_0, xs_1     flat: x, xs_0, xs_1
///
/// Requires for every member: GIL held.
class Concrete {
public:
  /// `names`: by slot, those that the user gave.
  Concrete(const PythonFunction &function, SpecializationRef specialization,
           const std::vector<std::string> &names);
  ~Concrete();
  Concrete(const Concrete &) = delete;
  Concrete &operator=(const Concrete &) = delete;

  pybind11::object call(const pybind11::args &args, const pybind11::kwargs &kwargs);

  const std::string &name() const { return name_; }
  const Specialization &specialization() const { return *specialization_; }
  /// The traced arguments: (name, kind, value) for each parameter, with `leaves` by slot in place
  /// of tensors and `unknown` in place of objects that are gone.
  pybind11::list arguments(const pybind11::list &leaves, pybind11::object unknown) const;
  /// The result with `leaves` in place of its tensors.
  pybind11::object result(const pybind11::list &leaves) const;
  /// (spec, requires_grad) of the slots, and of the captures behind them.
  pybind11::list inputs() const;
  /// The specs of the result's tensors at the trace.
  pybind11::list outputs() const;
  pybind11::list captured_inputs();
  void set_external_captures(const pybind11::list &tensors);
  /// The bare graph, for tensors in its order, captures among them.
  pybind11::list run(const pybind11::list &tensors) const;
  pybind11::object graph() const { return pybind11::cast(named_graph()); } ///< torch._C.Graph
  std::string code() const; ///< as TorchScript source

  /// The Python function.
  const pybind11::object &callable() const { return callable_; }
  /// How many of its first parameters are bound: 1 for a method's `self`.
  std::size_t bound_parameters() const { return bound_ ? 1 : 0; }
  /// The first guarded slot that holds something else now than at the trace; empty: none, or each
  /// call stores to slots, so that they differ after each.
  std::string stale() const;
  PythonState &state() const { return static_cast<PythonState &>(*specialization_->front_end); }

  /// There is nothing to clear: the Python object that has it is, and lets go of it.
  int traverse(visitproc visit, void *arg) const;

private:
  struct Parameter {
    std::string name;
    std::size_t node;
    bool by_place, by_name;
  };
  /// A call's arguments as the graph takes them.
  struct Arguments {
    std::vector<pybind11::object> tensors;                     ///< by slot; null: not given yet
    std::unordered_map<std::size_t, pybind11::object> objects; ///< by node: those that were given
    std::vector<pybind11::object> roots; ///< that captures are found from; null: gone
    UserValues values;                   ///< what users' types make of their objects
  };

  void add_parameters(bool bound);
  std::shared_ptr<torch::jit::Graph> named_graph() const;
  using Values = std::vector<pybind11::handle>;
  std::string shown_flat() const; ///< `f(x, y)`
  Arguments take(const pybind11::args &args, const pybind11::kwargs &kwargs) const;
  // What may not fit returns why; empty: it does.
  std::string bind(bool flat, const pybind11::args &args, const pybind11::kwargs &kwargs,
                   Values &values) const;
  std::string take_values(bool flat, const Values &values, Arguments &into) const;
  std::string take_parameter(const Parameter &parameter, pybind11::handle value,
                             Arguments &into) const;
  std::string take_leaf(const Parameter &parameter, std::size_t node, pybind11::handle value,
                        Arguments &into) const;
  static bool is_traced(const Node &node, pybind11::handle value);
  bool is_again(const Node &node, pybind11::handle value, const Arguments &given) const;
  std::string take_tensor(std::uint32_t slot, pybind11::object tensor, Arguments &into) const;
  std::string misfit(std::uint32_t slot, pybind11::handle tensor) const;
  std::string failed_condition(const Arguments &given) const;
  void check_grads(const torch::jit::Stack &inputs) const;
  void check_sizes(const torch::jit::Stack &inputs) const;
  void fill_roots(Arguments &into) const;
  std::vector<PyObject *> roots(const Arguments &given) const;
  std::vector<Owned> holders(const Arguments &given) const;
  std::vector<Owned> handed_out(const Arguments &given) const;
  std::vector<Owned> there(std::vector<Owned> objects, const char *used) const;
  pybind11::object result_of(const Arguments &given, const std::vector<Owned> &handed_out,
                             const std::vector<Owned> &holders, torch::jit::Stack &outputs) const;
  std::vector<pybind11::object> captures(const Arguments &given) const;
  void check_capture(std::size_t index, pybind11::handle tensor) const;
  void check_context() const;
  /// The subtree at a node as a Python value. `gone`: in place of objects that are gone; null: they
  /// raise a TraceError.
  pybind11::object value(std::size_t node, const Arguments &given,
                         const pybind11::object &gone = {}) const;
  pybind11::object inlined(const Arguments &given) const;
  const Signature &signature() const { return specialization_->signature; }

  SpecializationRef specialization_;
  std::shared_ptr<Counters> counters_;
  pybind11::object callable_;
  std::string name_;
  std::string where_; ///< for messages: `step (train.py:12)`
  std::vector<std::pair<std::string, python::Parameter::Kind>>
      declared_;                         ///< as the user wrote them
  std::vector<Parameter> parameters_;    ///< structured
  std::vector<std::string> input_names_; ///< by slot
  bool bound_ = false;                   ///< the first parameter is not passed
  bool sets_grad_mode_ = false;          ///< nodes of the graph do
  std::optional<std::vector<pybind11::object>> external_;
};

/// The one Python object for `specialization` of `function`: the Function has it, or `wrap` makes
/// it of a Concrete.
pybind11::object concrete_function(PythonFunction &function,
                                   const SpecializationRef &specialization,
                                   const std::vector<std::string> &names,
                                   const pybind11::object &wrap);

void add_concrete(pybind11::module_ &module);

/// What a Function is asked without a call: for a ConcreteFunction, what a call would do, what
/// there is. For tracehost/_concrete.py and _reports/introspection.py.
void add_requests(pybind11::module_ &module);

} // namespace tracehost::python
