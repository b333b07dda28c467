#include "python_call.h"

#include "atoms.h"
#include "conversion.h"
#include "environment/gil.h"
#include "errors.h"
#include "frames.h"
#include "profile.h"
#include "results.h"
#include "switches.h"
#include "traced_size.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>

namespace tracehost::python {
namespace {

struct Underway {
  const PythonFunction *function;
  const Signature *signature;
  PyFrameObject *outer; ///< strong; null: called from C++
};
thread_local std::vector<Underway> underway;

PyObject *object_of(const at::Tensor &t) {
  return t.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj();
}

bool is_refusal_set() {
  const Errors &e = errors();
  for (PyObject *type : {e.signature, e.value_read, e.staging, e.capture, e.trace})
    if (PyErr_ExceptionMatches(type))
      return true;
  return false;
}

TensorMeta meta_of(PyObject *tensor) {
  return TensorMeta::of(THPVariable_Unpack(tensor), Py_TYPE(tensor), Py_TYPE(tensor)->tp_name);
}

} // namespace

PythonCall::~PythonCall() = default;

void PythonCall::use(StandIns &stand_ins) {
  request_ = stand_ins_ = &stand_ins;
  convert([&](std::size_t, PyObject *value) { return stand_ins.replace(value); });
  may_pin = !stand_ins.open();
}

Signature PythonCall::signature() {
  std::vector<at::Tensor> slots;
  return flatten(*this, slots);
}

Signature PythonCall::flatten(Request &, std::vector<at::Tensor> &slots) {
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
  python::flatten(function_.binder, bound_, function_.bound_to(), values, signature, found);
  if (request_)
    request_->describe(signature, found.tensors);
  if (function_.declaration)
    function_.declaration->relax(signature);
  return signature;
}

/// A container that makes its tensors anew: the graph's inputs are none that the body sees.
void PythonCall::check_same_tensors(const Flattened &before, const Signature &signature) const {
  const auto &now = miss().flattened.tensors;
  for (std::uint32_t slot = 0; slot < now.size(); ++slot)
    if (slot >= before.tensors.size() || now[slot] != before.tensors[slot])
      raise(errors().signature,
            fmt::format("{} is another tensor each time it is read, so that later calls could not "
                        "find what the body used. Pass a dict, list or tuple of such tensors.",
                        path(signature, signature.first_node(slot))));
}

BodyResult PythonCall::run(Request &) {
  const Flattened before = std::move(miss().flattened); // held: an address stays its own
  const Signature signature = this->signature();
  check_same_tensors(before, signature);
  std::vector<Root> roots;
  bool typed = false;
  for (std::size_t i = 0; i < miss().flattened.roots.size(); ++i) {
    const std::size_t node = miss().flattened.root_nodes[i];
    const bool is_typed = signature.nodes[node].reserved[0] == kTypedRoot;
    roots.push_back({path(signature, node), miss().flattened.roots[i], static_cast<int>(i),
                     is_typed, miss().flattened.roots[i] == function_.bound_to()});
    typed |= is_typed;
    if (is_typed && node > 0 && signature.nodes[node - 1].kind == Kind::custom)
      miss().gives_tensors.push_back(roots.back().name + ".");
  }
  miss().recorder = std::make_unique<Recorder>(function_.callable, roots, function_.watch);
  miss().births.emplace();
  underway.push_back({&function_, &signature, PyThreadState_GetFrame(PyThreadState_Get())});
  struct Leave {
    ~Leave() {
      Py_XDECREF(reinterpret_cast<PyObject *>(underway.back().outer));
      underway.pop_back();
    }
  } leave;
  {
    const StandIns::Entered entered(request_);
    const Profile profile(*miss().recorder, *this);
    miss().result = typed ? call_with_placeholders() : call_body();
  }
  if (!miss().result) {
    // torch's argument parser, or the body, may have made another exception of a refusal.
    if (PyErr_ExceptionMatches(PyExc_Exception) && !is_refusal_set())
      trace::repeat_refusal();
    if (request_)
      put_back();
    rethrow();
  }
  if (trace::abandoned())
    return {};
  check_arguments_unchanged();
  BodyResult result;
  std::vector<Owned> tensors;
  result.outputs = describe_result(miss().result, function_.name, tensors);
  for (const Owned &t : tensors) {
    if (!can_be_wrapped(t.get()))
      trace::refuse(
          trace::Refusal::trace,
          fmt::format("{} returned a new {}, which a later call would return as a plain Tensor. "
                      "Return result.as_subclass(torch.Tensor), and wrap it outside.",
                      function_.name, Py_TYPE(t.get())->tp_name));
    result.tensors.push_back(THPVariable_Unpack(t.get()));
    miss().outputs.push_back(meta_of(t.get()));
  }
  for (Rebound &rebound : miss().recorder->rebound())
    repeat(rebound, result.tensors);
  if (returns_sizes(result.outputs)) {
    const trace::PausedWithData paused;
    torch::jit::Stack outputs(result.tensors.begin(), result.tensors.end());
    Owned built(build_result(result.outputs, outputs));
    if (!built)
      rethrow();
    Py_XSETREF(miss().result, built.release());
  }
  return result;
}

/// Whether a later call hands out such a tensor: it wraps a new one as torch.Tensor, and one that
/// exists keeps its object.
bool PythonCall::can_be_wrapped(PyObject *tensor) const {
  return reinterpret_cast<PyObject *>(Py_TYPE(tensor)) == THPVariableClass ||
         (request_ && StandIns::is_class(Py_TYPE(tensor))) || is_traced_size(tensor) ||
         std::find(miss().flattened.tensors.begin(), miss().flattened.tensors.end(), tensor) !=
             miss().flattened.tensors.end() ||
         Births::made_aside(tensor) || !miss().recorder->path_of(tensor).empty();
}

/// Makes what a slot was rebound to outputs of the graph, if later calls can store the like.
void PythonCall::repeat(Rebound &rebound, std::vector<at::Tensor> &outputs) {
  std::vector<Owned> tensors;
  OutputSpec value;
  try {
    value = describe_result(rebound.value, rebound.path, tensors);
  } catch (const python_error &) { // it holds an object that only the body can make
    return;
  }
  if (returns_sizes(value))
    return;
  for (const Owned &t : tensors)
    if (!can_be_wrapped(t.get()))
      return;
  for (Node &node : value.nodes)
    if (node.kind == Kind::tensor)
      node.payload.slot += static_cast<std::uint32_t>(outputs.size());
  for (const Owned &t : tensors)
    outputs.push_back(THPVariable_Unpack(t.get()));
  rebound.repeated = std::move(value);
}

/// No stand-in stays behind in what the body stored to.
void PythonCall::put_back() {
  const KeepError keep;
  miss().recorder->rebound();
  miss().recorder->put_back();
}

void PythonCall::check_arguments_unchanged() {
  const std::vector<Node> before = miss().nodes;
  const Flattened found = std::move(miss().flattened); // held: an address stays its own
  const Signature now = signature();
  std::size_t root = 0; // objects are compared as such: what their classes say is not asked
  Signature then = now;
  then.nodes = before;
  for (std::size_t p = 0; p < function_.parameters->names.size(); ++p) {
    const std::size_t a = then.subtree(p), b = now.subtree(p);
    bool same = before[a].end - a == now.nodes[b].end - b;
    for (std::size_t i = 0; same && i < before[a].end - a; ++i) {
      const Node &x = before[a + i], &y = now.nodes[b + i];
      if (x.kind != y.kind || x.reserved[0] != y.reserved[0])
        same = false;
      else if (x.kind == Kind::tensor)
        same = found.tensors[x.payload.slot] == miss().flattened.tensors[y.payload.slot];
      else if (x.reserved[0])
        same = found.roots[root] == miss().flattened.roots[root], ++root;
      else
        same = x.has_atom() ? x.payload.atom->same(*y.payload.atom)
                            : x.payload.integer == y.payload.integer;
    }
    if (!same)
      trace::refuse(
          trace::Refusal::trace,
          fmt::format("{} changes its argument '{}', which later calls would not do. Change a "
                      "copy, and return it.",
                      function_.name, function_.parameters->names[p]));
  }
}

std::shared_ptr<FrontEndState> PythonCall::finish(Request &, Signature &signature,
                                                  const trace::Traced &traced) {
  const WithGil gil;
  auto state = std::make_shared<PythonState>();
  state->roots = miss().flattened.roots.size();
  state->captures = traced.captures.size();
  state->outputs = std::move(miss().outputs);
  std::vector<PyObject *> captured;
  for (std::size_t i = 0; i < traced.captures.size(); ++i) {
    const trace::Capture &c = traced.captures[i];
    captured.push_back(object_of(c.tensor));
    signature.captures.push_back({c.path, miss().capture_metas.at(captured.size() - 1)});
    signature.captures.back().held = miss().recorder->path_of(captured.back()).empty();
  }
  for (std::size_t slot = 0; slot < miss().flattened.tensors.size(); ++slot) {
    PyObject *tensor = miss().flattened.tensors[slot];
    const std::string path = miss().recorder->path_of(tensor);
    const bool given = std::any_of(miss().gives_tensors.begin(), miss().gives_tensors.end(),
                                   [&](const std::string &by) { return path.starts_with(by); });
    if (path.empty() || given)
      continue;
    captured.push_back(tensor);
    const TensorMeta &before = signature.slots[slot];
    signature.captures.push_back(
        {path, before.relaxed ? meta_of(tensor) : before, static_cast<std::int32_t>(slot)});
  }
  state->environment = miss().recorder->finish(captured, miss().side_effects);
  if (request_)
    miss().recorder->put_back();
  miss().births.reset();
  if (!state->environment)
    rethrow();
  state->once = miss().recorder->once();
  state->rebinds = !state->environment->rebindings().empty();
  state->calls = callbacks_of(*traced.graph->block());
  miss().baked = traced.baked;
  miss().draws = traced.draws;
  const auto input = [&](std::uint32_t i) -> const at::Tensor & {
    const std::size_t slots = miss().flattened.tensors.size();
    return i < slots ? THPVariable_Unpack(miss().flattened.tensors[i])
                     : traced.captures[i - slots].tensor;
  };
  for (const ValueGuard &guard : signature.values)
    miss().read.emplace_back(input(guard.input), guard);
  for (const GradRead &read : signature.grads)
    miss().grads_read.emplace_back(input(read.input), read.state);
  signature.watched = state->environment->recorded(signature.atoms);
  for (const AtomRef &atom : signature.atoms)
    if (const auto *own = dynamic_cast<const PyAtom *>(atom.get()))
      state->runs_code |= own->runs_code();
  return state;
}

void PythonCall::environment(const Specialization &specialization, Request &,
                             Signature &signature) {
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

void PythonCall::execute(const Specialization &specialization, torch::jit::Stack &stack) {
  auto &state = static_cast<PythonState &>(*specialization.front_end);
  if (!state.rebinds) [[likely]]
    return run_program(specialization, state, stack);
  const auto holders = state.environment->holders(nullptr);
  run_program(specialization, state, stack);
  if (!state.environment->store(holders, stack))
    rethrow();
  stack.resize(specialization.outputs.tensors);
}

void PythonCall::run_program(const Specialization &specialization, PythonState &state,
                             torch::jit::Stack &stack) {
  const auto runs = state.measured.load(std::memory_order_relaxed);
  if (runs == PythonState::kMeasured && !state.slow.load(std::memory_order_relaxed)) [[likely]] {
    specialization.program->run(stack);
    return;
  }
  // A second owner over the run: dropping a tensor's last one but Python's would take the GIL.
  const c10::SmallVector<c10::IValue, 8> owners(stack.begin(), stack.end());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  {
    const pybind11::gil_scoped_release release;
    specialization.program->run(stack);
  }
  if (runs == PythonState::kMeasured)
    return;
  // The least of a few runs decides, so that a busy machine does not.
  const auto took =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  state.least_ns = std::min<std::int64_t>(state.least_ns, took);
  state.slow = specialization.program->long_running() || state.least_ns > 20'000;
  state.measured = static_cast<std::int8_t>(runs + 1);
}

std::optional<BesideResult> PythonCall::run_beside(Request &, const Specialization &served) {
  {
    const InStance eager(Stance::eager); // the Functions that it calls are parts of the graph
    miss().result = call_body();
  }
  if (!miss().result)
    rethrow();
  BesideResult beside;
  std::vector<Owned> tensors;
  try {
    const OutputSpec body = describe_result(miss().result, function_.name, tensors);
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
  const pybind11::gil_scoped_release release;
  wait();
}

Site PythonCall::caller() {
  const WithGil gil;
  return user_line();
}

Site PythonCall::here() {
  const WithGil gil;
  return user_line();
}

std::string PythonCall::why_not_staged() {
  const WithGil gil;
  return Converting::now() ? why_not_converted() : "autograph is off";
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

std::string PythonCall::capture_path(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  const std::string line = text(user_line());
  if (!object || miss().births->has(object))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format(
            "a tensor used at {} was made during the trace by something that is not "
            "recorded (numpy, dlpack, another thread, a view of storage). Make it outside of "
            "the function, or by a torch op in it.",
            line));
  std::string path = miss().recorder->path_of(object);
  if (StandIns::is_class(Py_TYPE(object)))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format("a tensor used at {} only stands for one of another call, or of a branch or "
                    "loop that is staged, which it left through a container, an attribute or a "
                    "function's state. Assign it to a variable there (in each branch), or "
                    "collect values in a TensorArray.",
                    line));
  if (path.empty() && !Births::notes(Py_TYPE(object)))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format(
            "a {} used at {} is reached by no path that tracehost can read again. Pass it as "
            "an argument.",
            Py_TYPE(object)->tp_name, line));
  miss().capture_metas.push_back(meta_of(object));
  return path.empty() ? "a tensor first used at " + line : path;
}

std::string PythonCall::path_of(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  return object ? miss().recorder->path_of(object) : std::string();
}

std::vector<std::string> PythonCall::spec_names() const {
  return request_ ? request_->names(miss().flattened.tensors) : std::vector<std::string>();
}

at::Tensor PythonCall::stand_in(const at::Tensor &tensor) {
  if (tensor.key_set().has(c10::DispatchKey::Python)) // the mode made it
    return tensor;
  const WithGil gil;
  return stand_ins_->twin(tensor);
}

void PythonCall::enter_stand_ins() {
  if (request_)
    return;
  const WithGil gil;
  const StandIns::AtWork mark;
  if (!staged_) {
    const Owned module(PyImport_ImportModule("tracehost._stand_ins"));
    Owned maker(module ? PyObject_CallMethod(module.get(), "Maker", nullptr) : nullptr);
    if (!maker)
      rethrow();
    staged_ = std::make_unique<Staged>();
    staged_->maker = std::move(maker);
  }
  if (staged_->depth == 0) {
    staged_->stand_ins.emplace(staged_->maker.get());
    staged_->entered.emplace(&*staged_->stand_ins);
    stand_ins_ = &*staged_->stand_ins;
    const Owned quiet(PyObject_CallMethod(staged_->maker.get(), "begin", nullptr));
    if (!quiet)
      rethrow();
  }
  ++staged_->depth;
}

void PythonCall::leave_stand_ins() {
  if (request_ || --staged_->depth > 0)
    return;
  const WithGil gil;
  stand_ins_ = nullptr;
  {
    const KeepError keep;
    const Owned loud(PyObject_CallMethod(staged_->maker.get(), "end", nullptr));
    PyErr_Clear();
  }
  staged_->entered.reset();
  staged_->stand_ins.reset();
}

void PythonCall::refuse(trace::Refusal why, const std::string &message) {
  const WithGil gil;
  PyObject *type = why == trace::Refusal::value_read ? errors().value_read
                   : why == trace::Refusal::staging  ? errors().staging
                   : why == trace::Refusal::capture  ? errors().capture
                                                     : errors().trace;
  raise(type, message);
}

bool PythonCall::warn() { return warn_side_effects() && warn_baked() && warn_draws(); }

bool PythonCall::warn_draws() {
  for (const trace::BakedRead &draw : miss().draws) {
    const std::string where = text(draw.where);
    if (!function_.baked.insert(where).second)
      continue;
    const std::string message = fmt::format(
        "{} uses {} at {} while it is traced: later calls draw nothing, and use what was drawn "
        "then. Draw with torch (torch.rand, torch.randint), or outside of the function, and pass "
        "the number.",
        function_.name, draw.what, where);
    if (PyErr_WarnEx(errors().trace_warning, message.c_str(), 1))
      return false;
  }
  return true;
}

bool PythonCall::warn_mismatch() {
  if (!function_.wrong.insert(mismatch->culprit).second)
    return true;
  const std::string op =
      mismatch->culprit.empty() ? std::string() : fmt::format(" ({})", mismatch->culprit);
  const std::string when =
      mismatch->hits
          ? fmt::format("after {} hits, its graph does not do what the body does", mismatch->hits)
          : "its graph would not do what the body did";
  const std::string message = fmt::format(
      "{}: {}: {}{}. This call has the body's result, and from now on calls with its signature run "
      "as plain Python. If what the line gives depends on more than tensors and arguments (time, "
      "random numbers of Python or numpy, state that other code changes), pass that in as a tensor "
      "or an argument. If it does not, please report it.",
      function_.name, when, mismatch->what, op);
  return PyErr_WarnEx(errors().trace_warning, message.c_str(), 1) == 0;
}

bool PythonCall::warn_baked() {
  for (const trace::BakedRead &read : miss().baked) {
    const std::string where = text(read.where);
    if (!function_.baked.insert(where).second)
      continue;
    const std::string message = fmt::format(
        "{} reads {} at {}, and value_reads=\"bake\" keeps it in the graph: later calls use it "
        "whatever the value is then. Use \"guard\" for a graph for each value of an input, or keep "
        "the computation in tensors.",
        function_.name, read.what, where);
    if (PyErr_WarnEx(errors().trace_warning, message.c_str(), 1))
      return false;
  }
  return true;
}

bool PythonCall::warn_side_effects() {
  for (const SideEffect &e : miss().side_effects) {
    if (!function_.warned.insert(e.path).second)
      continue;
    const std::string where = e.where.line ? " at " + text(e.where) : "";
    const std::string message = fmt::format(
        "{} changes {}{} while it is traced; later calls run the graph and will not. Keep "
        "such state in a tensor that is updated in place, or change it outside of the function.",
        function_.name, e.path, where);
    // A request comes through Python code of ours.
    const Site at = request_ ? user_line() : Site();
    if (at.line ? PyErr_WarnExplicit(errors().side_effect, message.c_str(), at.file.c_str(),
                                     at.line, nullptr, nullptr)
                : PyErr_WarnEx(errors().side_effect, message.c_str(), 1))
      return false;
  }
  return true;
}

PyObject *PythonCall::outer_frame() {
  return underway.empty() ? nullptr : reinterpret_cast<PyObject *>(underway.back().outer);
}

bool is_being_traced(const PythonFunction &function) {
  for (const Underway &u : underway)
    if (u.function == &function)
      return true;
  return false;
}

bool is_being_traced(const PythonFunction &function, Signature signature) {
  for (const Underway &u : underway) {
    signature.context = u.signature->context; // the trace itself changes the thread's modes
    if (u.function == &function && differences(*u.signature, signature).empty())
      return true;
  }
  return false;
}

} // namespace tracehost::python
