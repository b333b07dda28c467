#include "call/python_call.h"

#include "base/errors.h"
#include "base/op_warnings.h"
#include "call/cold_calls.h"
#include "call/context_probe.h"
#include "call/function_type.h"
#include "call/plain_calls.h"
#include "call/python_trace.h"
#include "call/stance.h"
#include "pytree/results.h"
#include "pytree/tensor_match.h"
#include "signature/tensor_fit.h"
#include "signature/thread.h"
#include "tape/guards.h"
#include "tape/operands.h"
#include "trace/tracer.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>

/// The hot call, in the order in which it runs. What is not a hit is in cold_calls.cpp, a miss's
/// trace in python_trace.h.
///
/// 1. call_function(): is a profiler on? serve(): is a trace under way, is the stance "eager", has
/// the body new code?
/// 2. bind(): positional and keyword arguments become values of parameters (pytree/binder.h).
/// 3. probe_context(): the thread's modes (context_probe.h).
/// 4. FunctionCore::call() (host/function/function.cpp) asks the Specialization that served last,
///    then the others (List::find, host/cache/cache.h). No key is built: to compare arguments with
///    a tree of nodes costs less than to hash them.
/// 5. verify(): arguments (pytree/match.cpp), guards (guards/graph_guards.cpp), captures, then what
///    few Specializations have. The graph's inputs are lent to the run (tape/operands.h).
/// 6. execute(): the Program runs (host/program/program.cpp); then it stores what the body stored.
/// 7. build_result(): outputs as the body structured them (pytree/results.cpp).

namespace tracehost::python {

namespace {

PyObject *serve(PyObject *self, PyObject *const *args, std::size_t nargsf, PyObject *kwnames) {
  PythonFunction &f = *reinterpret_cast<FunctionObject *>(self)->function;
  const Arguments arguments{args, nargsf, kwnames};
  PythonCall call(f, args, nargsf, kwnames);
  try {
    if (*Thread::here().tracing || trace::active()) [[unlikely]]
      return call_inlined(f, arguments);
    const Stance stance = python::stance();
    if (stance == Stance::eager) [[unlikely]]
      return call_eagerly(f, arguments);
    if (f.has_new_code()) [[unlikely]]
      f.take_new_code();
    if (!call.bind()) [[unlikely]]
      return nullptr;
    if (f.takes_arrays) [[unlikely]]
      call.convert_arrays();
    call.stance = stance == Stance::trace ? f.stance : stance;
    call.context = probe_context();
    PooledOperands operands;
    SpecializationRef served;
    const auto outcome = f.core->call(call, *operands, served);
    if (outcome != FunctionCore::Outcome::hit) [[unlikely]]
      return call_missed(f, call, outcome);
    return call.result_of(*served, *operands);
  } catch (const RunsPlain &mode) {
    return call_plainly(f, arguments, mode.around);
  } catch (const TraceAhead &) {
    return call_traced_ahead(self, arguments);
  } catch (...) {
    return call_failed(f, call, arguments);
  }
}

/// Under torch.profiler: the call is a region of the Function's name. No op begins or ends it, so a
/// trace does not see it.
[[gnu::cold, gnu::noinline]] PyObject *serve_observed(PyObject *self, PyObject *const *args,
                                                      std::size_t nargsf, PyObject *kwnames) {
  const auto counters = reinterpret_cast<FunctionObject *>(self)->function->core->counters();
  const Identity &identity = counters->identity;
  at::RecordFunction region(at::RecordScope::USER_SCOPE);
  region.before(identity.qualified.empty() ? std::string_view(identity.name)
                                           : std::string_view(identity.qualified));
  return serve(self, args, nargsf, kwnames);
}

} // namespace

/// A profiler has a callback for ops and regions. at::hasCallbacks() would take a lock.
PyObject *call_function(PyObject *self, PyObject *const *args, std::size_t nargsf,
                        PyObject *kwnames) {
  if (tape::is_observed()) [[unlikely]]
    return serve_observed(self, args, nargsf, kwnames);
  return serve(self, args, nargsf, kwnames);
}

PythonCall::PythonCall(PythonFunction &function, PyObject *const *args, std::size_t nargsf,
                       PyObject *kwnames)
    : function_(function), args_(args), positional_(PyVectorcall_NARGS(nargsf)), kwnames_(kwnames) {
}

PythonCall::~PythonCall() = default;

PythonTrace &PythonCall::trace() {
  if (!trace_)
    trace_ = std::make_unique<PythonTrace>(*this);
  return *trace_;
}

TraceSession &PythonCall::session() { return trace(); }

bool PythonCall::has_run() const { return trace_ && trace_->has_run(); }

namespace {

/// Whether the body read more of its inputs than what each call compares.
bool reads_inputs(const Signature &signature) {
  return !signature.conditions.empty() || signature.reads_strides || signature.reads_leaf ||
         !signature.grads.empty();
}

[[gnu::noinline]] bool inputs_fit(const Signature &signature, const GraphInputs &inputs) {
  return conditions_hold(signature, inputs) &&
         reads_hold(signature, signature.slots.size() + signature.captures.size(), inputs);
}

} // namespace

bool PythonCall::verify(Specialization &specialization, Operands &operands) {
  const Signature &signature = specialization.signature;
  if (!(signature.context == context) || !matches(signature, function_.binder, bound_, found_))
    return false;
  auto &state = static_cast<PythonState &>(*specialization.front_end);
  if (state.runs_code) [[unlikely]]
    found_.protect();
  if (!state.guards->verify(found_.roots.data()))
    return false;
  if (!signature.captures.empty() && !captures_match(specialization, state, found_.tensors))
    return false;
  if (!state.absent.empty() && !are_absent(state.absent)) [[unlikely]]
    return false;
  if (reads_inputs(signature) && !inputs_fit(signature, {found_.tensors, state.guards->captures()}))
      [[unlikely]]
    return false;
  for (PyObject *t : found_.tensors)
    operands.lend(THPVariable_Unpack(t));
  const auto captured = state.guards->captures();
  for (std::size_t i = 0; i < state.captures; ++i)
    operands.lend(THPVariable_Unpack(captured[i]));
  return true;
}

/// hasattr(x, "jax"): of most tensors there is no dict to look into.
bool PythonCall::are_absent(const std::vector<PyObject *> &names) const {
  for (PyObject *t : found_.tensors) {
    PyObject **attributes = _PyObject_GetDictPtr(t);
    if (!attributes || !*attributes || !PyDict_GET_SIZE(*attributes))
      continue;
    for (PyObject *name : names)
      if (PyDict_Contains(*attributes, name) != 0)
        return false;
  }
  return true;
}

bool PythonCall::captures_match(const Specialization &specialization, const PythonState &state,
                                std::span<PyObject *const> tensors) {
  const auto &specs = specialization.signature.captures;
  const auto captured = state.guards->captures();
  for (std::size_t i = 0; i < specs.size(); ++i) {
    PyObject *object = captured[i];
    if (Py_TYPE(object) != specs[i].meta.type)
      return false;
    const auto *impl = THPVariable_Unpack(object).unsafeGetTensorImpl();
    if (!fits(specs[i].meta, *impl))
      return false;
    // A capture is the slot that it was at the trace, or none.
    for (std::size_t slot = 0; slot < tensors.size(); ++slot) {
      const bool same = THPVariable_Unpack(tensors[slot]).unsafeGetTensorImpl() == impl;
      if (same != (specs[i].same_as_slot == static_cast<std::int32_t>(slot)))
        return false;
    }
  }
  return true;
}

void PythonCall::execute(const Specialization &specialization, Operands &operands) {
  auto &state = static_cast<PythonState &>(*specialization.front_end);
  if (!state.does_more) [[likely]]
    return run_program(specialization, state, operands);
  operands.own(); // what follows may run Python
  find_handed_out(specialization);
  const auto holders = state.guards->holders(nullptr);
  std::vector<Owned> changed;
  if (state.containers) {
    find_containers(specialization); // a change may take one out of another
    for (const ContainerChange &change : state.containers->changes) {
      PyObject *found = find(change.path, bound_, function_.binder.fixed());
      if (!found)
        raise(PyExc_RuntimeError, function_.name + ": another thread has changed its arguments");
      changed.emplace_back(Py_NewRef(found));
    }
  }
  run_program(specialization, state, operands);
  torch::jit::Stack &outputs = operands.own();
  made_.clear();
  RunValues values{specialization.outputs,     state.stored, outputs, given(),
                   containers(specialization), made_};
  if (!state.guards->store(holders, values))
    rethrow();
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const ContainerChange &change = state.containers->changes[i];
    const Owned built(build_stored(values, change.values));
    if (!built || !apply(change, changed[i].get(), built.get()))
      rethrow();
  }
  outputs.resize(specialization.outputs.tensors);
}

PyObject *PythonCall::result_of(const Specialization &served, Operands &outputs) {
  const auto &state = static_cast<const PythonState &>(*served.front_end);
  RunValues values{served.outputs, state.stored, outputs.own(), given(), containers(served), made_};
  return build_result(values);
}

std::span<PyObject *const> PythonCall::find_containers(const Specialization &served) {
  const auto &state = static_cast<const PythonState &>(*served.front_end);
  if (std::exchange(containers_of_, &served) == &served)
    return containers_;
  containers_.clear();
  if (state.containers)
    for (const ContainerPath &path : state.containers->given) {
      held_.emplace_back(Py_XNewRef(find(path, bound_, function_.binder.fixed())));
      containers_.push_back(held_.back().get());
    }
  return containers_;
}

/// The objects from outside that the result holds: before the run, which may take them away.
void PythonCall::find_handed_out(const Specialization &served) {
  const auto &state = static_cast<const PythonState &>(*served.front_end);
  if (!state.guards->hands_out())
    return;
  const std::size_t of_arguments = state.containers ? state.containers->given.size() : 0;
  find_containers(served);
  containers_.resize(of_arguments); // a validated call asks twice
  found_.roots.resize(state.roots);
  auto objects = state.guards->handed_out(nullptr);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i + state.containers_reached < objects.size())
      found_.roots.push_back(objects[i].get());
    else
      containers_.push_back(objects[i].get());
    held_.push_back(std::move(objects[i]));
  }
}

void PythonCall::run_program(const Specialization &specialization, PythonState &state,
                             Operands &operands) {
  const auto runs = state.measured.load(std::memory_order_relaxed);
  if (runs == PythonState::kMeasured && !state.slow.load(std::memory_order_relaxed)) [[likely]] {
    OpWarnings warnings(operands);
    specialization.program->run_or_undo(operands);
    warnings.give();
    return;
  }
  // A second owner over the run: dropping a tensor's last one but Python's would take the GIL.
  torch::jit::Stack &stack = operands.own();
  const c10::SmallVector<c10::IValue, 8> owners(stack.begin(), stack.end());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  OpWarnings warnings(operands);
  {
    const pybind11::gil_scoped_release release;
    specialization.program->run_or_undo(operands);
  }
  warnings.give();
  if (runs == PythonState::kMeasured)
    return;
  // The least of a few runs decides, so that a busy machine does not.
  const auto took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  state.least_ns = std::min<std::int64_t>(state.least_ns, took);
  state.slow = specialization.runs_without_gil() || state.least_ns > 20'000;
  state.measured = static_cast<std::int8_t>(runs + 1);
}

} // namespace tracehost::python
