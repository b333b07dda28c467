#include "call/python_call.h"

#include "base/autograph.h"
#include "base/errors.h"
#include "base/object.h"
#include "base/user_line.h"
#include "call/stance.h"
#include "pytree/results.h"

#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>

/// A call as it is looked up and as it runs its graph; its trace is in python_trace.cpp.

namespace tracehost::python {

PythonCall::~PythonCall() = default;

void PythonCall::use(StandIns &stand_ins) {
  request_ = &stand_ins;
  convert([&](std::size_t, PyObject *value) { return stand_ins.replace(value); });
  if (stand_ins.open())
    pins = trace::Pins::none;
}

Signature PythonCall::signature() {
  std::vector<at::Tensor> slots;
  return flatten(slots);
}

Signature PythonCall::flatten(std::vector<at::Tensor> &slots) {
  if (PyErr_Occurred()) // a user's `__eq__` was interrupted while a Specialization was verified
    rethrow();
  miss().flattened = {};
  Signature signature = flatten_as(miss().values, miss().flattened);
  miss().nodes = signature.nodes;
  slots.clear();
  for (PyObject *t : miss().flattened.tensors)
    slots.push_back(THPVariable_Unpack(t));
  return signature;
}

Signature PythonCall::flatten_as(UserValues &values, Flattened &found) {
  Signature signature;
  signature.parameters = function_.parameters;
  signature.context = context;
  const Identity &identity = function_.core->counters()->identity;
  python::flatten(function_.binder, bound_, function_.bound_to(), values,
                  identity.reduces && !identity.declared, signature, found);
  if (request_)
    request_->describe(signature, found.tensors);
  if (function_.declaration)
    function_.declaration->relax(signature);
  return signature;
}

void PythonCall::environment(const Specialization &specialization, Signature &signature) {
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  if (state.roots != miss().flattened.roots.size())
    return;
  const Flattened cast = cast_to(specialization.signature, signature);
  const auto &slots = cast.roots.empty() ? miss().flattened.tensors : cast.tensors;
  signature.watched = state.environment->current(miss().flattened.roots.data(), signature.atoms);
  const auto tensors = state.environment->current_captures(miss().flattened.roots.data());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CaptureSpec spec = specialization.signature.captures[i];
    if (tensors[i]) {
      spec.meta = meta_of(tensors[i]);
      const auto slot = std::find(slots.begin(), slots.end(), tensors[i]);
      spec.same_as_slot =
          slot == slots.end() ? -1 : static_cast<std::int32_t>(slot - slots.begin());
    }
    signature.captures.push_back(std::move(spec));
  }
  for (const ValueGuard &guard : specialization.signature.values)
    if (auto now = current_value(guard, specialization, slots, tensors))
      signature.values.push_back(std::move(*now));
  for (const GradRead &read : specialization.signature.grads)
    if (const auto now = current_grad(read, specialization, tensors))
      signature.grads.push_back(*now);
}

std::vector<at::Tensor> PythonCall::captures(const Specialization &specialization) {
  const auto &state = static_cast<const PythonState &>(*specialization.front_end);
  std::vector<at::Tensor> result;
  if (state.roots != miss().flattened.roots.size())
    return result;
  for (PyObject *object : state.environment->current_captures(miss().flattened.roots.data()))
    result.push_back(object ? THPVariable_Unpack(object) : at::Tensor());
  return result;
}

std::optional<GradRead> PythonCall::current_grad(const GradRead &read, const Specialization &of,
                                                 const std::vector<PyObject *> &captures) const {
  const std::size_t slots = of.signature.slots.size();
  if (slots != miss().flattened.tensors.size())
    return std::nullopt;
  PyObject *object =
      read.input < slots ? miss().flattened.tensors[read.input] : captures[read.input - slots];
  if (!object)
    return std::nullopt;
  const at::Tensor &t = THPVariable_Unpack(object);
  for (const auto &[tensor, state] : miss().grads_read)
    if (tensor.is_same(t))
      return GradRead{read.input, state};
  return GradRead{read.input, grad_state(t)};
}

/// Nothing where the call has no such input; not known where that has no values, or too many.
std::optional<ValueGuard> PythonCall::current_value(const ValueGuard &guard,
                                                    const Specialization &of,
                                                    const std::vector<PyObject *> &slots,
                                                    const std::vector<PyObject *> &captures) const {
  const std::size_t count = of.signature.slots.size();
  if (count != slots.size())
    return std::nullopt;
  PyObject *object = guard.input < count ? slots[guard.input] : captures[guard.input - count];
  if (!object)
    return std::nullopt;
  const at::Tensor &t = THPVariable_Unpack(object);
  for (const auto &[read, value] : miss().read)
    if (read.is_same(t))
      return value;
  if (can_be_guarded(t))
    return guard_of(guard.input, t);
  return ValueGuard{guard.input, guard.dtype, guard.scalar, {}, {}};
}

void PythonCall::execute(const Specialization &specialization, torch::jit::Stack &stack,
                         Begun *begun) {
  auto &state = static_cast<PythonState &>(*specialization.front_end);
  if (!state.does_more) [[likely]]
    return run_program(specialization, state, stack, begun);
  find_handed_out(specialization);
  const auto holders = state.environment->holders(nullptr);
  std::vector<Owned> changed;
  if (state.containers) {
    find_containers(specialization); // a change may take one out of another
    for (const ContainerChange &change : (*state.containers)->changes) {
      PyObject *found = find(change.path, bound_, function_.binder.fixed());
      if (!found)
        raise(PyExc_RuntimeError, function_.name + ": another thread has changed its arguments");
      changed.emplace_back(Py_NewRef(found));
    }
  }
  run_program(specialization, state, stack, begun);
  if (!state.environment->store(holders, stack))
    rethrow();
  for (std::size_t i = 0; i < changed.size(); ++i) {
    const ContainerChange &change = (*state.containers)->changes[i];
    const Owned values(build_result(change.values, stack));
    if (!values || !apply(change, changed[i].get(), values.get()))
      rethrow();
  }
  stack.resize(specialization.outputs.tensors);
}

std::span<PyObject *const> PythonCall::find_containers(const Specialization &served) {
  const auto &state = static_cast<const PythonState &>(*served.front_end);
  if (std::exchange(containers_of_, &served) == &served)
    return containers_;
  containers_.clear();
  if (state.containers)
    for (const ContainerPath &path : (*state.containers)->given) {
      held_.emplace_back(Py_XNewRef(find(path, bound_, function_.binder.fixed())));
      containers_.push_back(held_.back().get());
    }
  return containers_;
}

/// The objects from outside that the result holds: before the run, which may take them away.
void PythonCall::find_handed_out(const Specialization &served) {
  const auto &state = static_cast<const PythonState &>(*served.front_end);
  if (!state.environment->hands_out())
    return;
  const std::size_t of_arguments = state.containers ? (*state.containers)->given.size() : 0;
  find_containers(served);
  containers_.resize(of_arguments); // a validated call asks twice
  found_.roots.resize(state.roots);
  auto objects = state.environment->handed_out(nullptr);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (i + state.containers_reached < objects.size())
      found_.roots.push_back(objects[i].get());
    else
      containers_.push_back(objects[i].get());
    held_.push_back(std::move(objects[i]));
  }
}

void PythonCall::run_program(const Specialization &specialization, PythonState &state,
                             torch::jit::Stack &stack, Begun *begun) {
  const auto runs = state.measured.load(std::memory_order_relaxed);
  if (runs == PythonState::kMeasured && !state.slow.load(std::memory_order_relaxed)) [[likely]] {
    specialization.program->run(stack, begun);
    return;
  }
  // A second owner over the run: dropping a tensor's last one but Python's would take the GIL.
  const c10::SmallVector<c10::IValue, 8> owners(stack.begin(), stack.end());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    const pybind11::gil_scoped_release release;
    specialization.program->run(stack, begun);
  }
  if (runs == PythonState::kMeasured)
    return;
  // The least of a few runs decides, so that a busy machine does not.
  const auto took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  state.least_ns = std::min<std::int64_t>(state.least_ns, took);
  state.slow = specialization.runs_without_gil() || state.least_ns > 20'000;
  state.measured = static_cast<std::int8_t>(runs + 1);
}

std::optional<BesideResult> PythonCall::run_beside(const Specialization &served) {
  find_handed_out(served);
  {
    const InStance eager(Stance::eager); // the Functions that it calls are parts of the graph
    miss().result = call_body();
  }
  if (!miss().result)
    rethrow();
  BesideResult beside;
  std::vector<Owned> tensors;
  try {
    const OutputSpec body = describe_result(miss().result, function_.name, tensors,
                                            {given(), true, containers(served)});
    beside.different = difference(served.outputs, body, tensors, beside.tensors);
  } catch (const python_error &) {
    beside.different = current_error();
    PyErr_Clear();
  }
  return beside;
}

bool PythonCall::alone() {
  const PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  return first && !PyThreadState_Next(const_cast<PyThreadState *>(first));
}

void PythonCall::blocking(const std::function<void()> &wait) {
  std::optional<pybind11::gil_scoped_release> released;
  if (PyGILState_Check()) // not within an op, for which torch has given it up
    released.emplace();
  wait();
}

Site PythonCall::caller() {
  const WithGil gil;
  return user_line();
}

std::string PythonCall::current_error() {
  const WithGil gil;
  try {
    throw;
  } catch (python_error &e) {
    const Owned text(PyObject_Str(e.value ? e.value : Py_None));
    const std::string type = e.type && PyType_Check(e.type)
                                 ? reinterpret_cast<PyTypeObject *>(e.type)->tp_name
                                 : "error";
    return type + ": " + utf8(text.get());
  } catch (const std::exception &e) {
    return e.what();
  }
}

std::vector<std::string> PythonCall::spec_names() const {
  return request_ ? request_->names(miss().flattened.tensors) : std::vector<std::string>();
}

TensorMeta meta_of(PyObject *tensor) {
  return TensorMeta::of(THPVariable_Unpack(tensor), Py_TYPE(tensor), Py_TYPE(tensor)->tp_name);
}

PyObject *object_of(const at::Tensor &t) {
  return t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
}

} // namespace tracehost::python
