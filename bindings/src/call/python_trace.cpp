#include "call/python_trace.h"

#include "base/autograph.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "call/stance.h"
#include "hooks/profile.h"
#include "numbers/numbers_left.h"
#include "numbers/traced_number.h"
#include "pytree/container.h"
#include "pytree/leaf.h"
#include "pytree/results.h"
#include "trace/block.h"

#include <c10/util/ScopeExit.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <algorithm>

/// A call's trace: the body runs once and is observed. Later calls repeat what the body did besides
/// its ops. Where they can't, the body is unsupported.

namespace tracehost::python {
namespace {

struct Underway {
  const PythonFunction *function;
  const Signature *signature;
};
thread_local std::vector<Underway> underway;

bool is_rejection_set() {
  const Errors &e = errors();
  for (PyObject *type : {e.signature, e.value_read, e.staging, e.capture, e.trace})
    if (PyErr_ExceptionMatches(type))
      return true;
  return false;
}

/// Draws of the user's own code. Hits do not make them, and a warning says so. The user can't
/// change what a library draws, so a trace with such draws serves its call alone.
std::vector<trace::NotedLine> draws_of_user(const std::vector<trace::NotedLine> &draws,
                                            Recorder &recorder) {
  std::vector<trace::NotedLine> users;
  for (const trace::NotedLine &draw : draws) {
    const py::str file(draw.where.file);
    if (!draw.where.inside.empty() || origin_of_file(file.ptr()) == Origin::package)
      recorder.paths().serves_once(
          fmt::format("draws from {} at {}, which no graph does", draw.what, text(draw.where)));
    else
      users.push_back(draw);
  }
  return users;
}

/// Whether each container around `node` returns the same objects that were stored in it.
bool only_stores(const Signature &signature, std::size_t node) {
  for (std::size_t i = 0; i < node; ++i) {
    const Node &around = signature.nodes[i];
    if (!around.has_atom() || !around.is_container() || around.end <= node)
      continue;
    const Form form = static_cast<const ContainerType *>(around.payload.atom)->form();
    if (form != Form::tuple && form != Form::list && form != Form::dict)
      return false;
  }
  return true;
}

} // namespace

/// Tensors are found twice, before the trace and for it. One that differs was made by a container
/// that makes its items, or stored by another thread.
void PythonTrace::check_same_tensors(const Flattened &before, const Signature &signature) const {
  const auto &now = flattened_.tensors;
  for (std::uint32_t slot = 0; slot < now.size(); ++slot) {
    if (slot < before.tensors.size() && now[slot] == before.tensors[slot])
      continue;
    const std::size_t node = signature.first_node(slot);
    if (only_stores(signature, node))
      raise(PyExc_RuntimeError,
            fmt::format("{}: another thread has changed {} while the call ran. Pass each call its "
                        "own list or dict.",
                        function_.name, path(signature, node)));
    raise(errors().signature,
          fmt::format("{} is another tensor each time it is read, so that later calls could not "
                      "find what the body used. Pass a dict, list or tuple of such tensors.",
                      path(signature, node)));
  }
}

BodyResult PythonTrace::run() {
  const Flattened before = std::move(flattened_); // held: an address stays its own
  const Signature signature = this->signature();
  check_same_tensors(before, signature);
  std::vector<Root> roots;
  bool typed = false;
  for (std::size_t i = 0; i < flattened_.roots.size(); ++i) {
    const std::size_t node = flattened_.root_nodes[i];
    const bool is_typed = signature.nodes[node].reserved[0] == kTypedRoot;
    roots.push_back({path(signature, node), flattened_.roots[i], static_cast<int>(i), is_typed,
                     signature.nodes[node].reserved[0] == kAlikeRoot,
                     flattened_.roots[i] == function_.bound_to()});
    typed |= is_typed;
    if (is_typed && node > 0 && signature.nodes[node - 1].kind == Kind::custom)
      gives_tensors_.push_back(roots.back().name + ".");
  }
  recorder_ = std::make_unique<Recorder>(function_.callable.get(), roots, flattened_.tensors,
                                         function_.watch, request_ ? nullptr : &function_.history);
  allocations_.emplace();
  const BodyFrames frames;
  underway.push_back({&function_, &signature});
  const auto leave = c10::make_scope_exit([] { underway.pop_back(); });
  if (!call_.converted_ && !request_) {
    containers_.emplace(bound_, function_.binder.fixed());
    for (PyObject *container : containers_->objects())
      recorder_->paths().given_container(container);
  }
  NumbersLeft numbers;
  {
    const Profile profile(*recorder_);
    result_ = Owned(typed ? call_with_placeholders() : call_.call_body());
  }
  if (const Owned interrupt = std::move(recorder_->interrupt)) {
    result_ = Owned();
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(interrupt.get())), interrupt.get());
  }
  if (result_ && !trace::abandoned())
    result_ = plain_result(result_.get());
  recorder_->paths().numbers().restore();
  if (!result_) {
    // torch's argument parser, or the body, may have replaced the exception of an unsupported
    // program by another one.
    if (PyErr_ExceptionMatches(PyExc_Exception) && !is_rejection_set())
      trace::repeat_rejection();
    if (request_)
      restore();
    else
      leave_numbers(numbers);
    rethrow();
  }
  const std::string left = request_ ? std::string() : fake_tensors_left();
  if (trace::abandoned() || !left.empty())
    return_as_eager();
  if (trace::abandoned()) {
    leave_numbers(numbers);
    return {};
  }
  try {
    if (!left.empty())
      trace::reject(trace::Rejection::staging,
                    fmt::format("{} of a branch or loop that is staged, and that is not "
                                "run at this call. Assign it to a variable there (in each branch), "
                                "and store that behind the block.",
                                left));
    return recorded_result(numbers);
  } catch (...) {
    if (!is_exit()) {
      if (call_.goes_on(trace::Rejection::trace)) // the call ends with what the body has returned
        return_as_eager();
      leave_numbers(numbers);
    }
    throw;
  }
}

/// What the body has returned and stored, as outputs of the graph.
BodyResult PythonTrace::recorded_result(NumbersLeft &numbers) {
  compare_containers();
  BodyResult result;
  describe(result);
  return_as_eager(result);
  {
    const trace::PausedWithData paused;
    recorder_->replace_numbers();
  }
  numbers.replace();
  note_given(result);
  return result;
}

std::optional<BesideResult> PythonTrace::run_beside(const Specialization &served) {
  call_.find_handed_out(served);
  {
    const InStance eager(Stance::eager); // the Functions that it calls are parts of the graph
    result_ = Owned(call_.call_body());
  }
  if (!result_)
    rethrow();
  BesideResult beside;
  std::vector<Owned> tensors;
  const auto &served_state = static_cast<const PythonState &>(*served.front_end);
  try {
    const auto has_attributes = [&](PyObject *tensor) {
      PyObject **dict = _PyObject_GetDictPtr(tensor);
      const auto given = served_state.guards->captures();
      const auto &passed = call_.found_.tensors;
      return dict && *dict && PyDict_GET_SIZE(*dict) > 0 && !is_number(tensor) &&
             std::find(given.begin(), given.end(), tensor) == given.end() &&
             std::find(passed.begin(), passed.end(), tensor) == passed.end();
    };
    const OutputSpec body =
        describe_result(result_.get(), function_.name, tensors,
                        {call_.given(), call_.containers(served), nullptr, has_attributes});
    beside.different = difference(served.outputs, body, tensors, beside.tensors);
  } catch (const python_error &) {
    if (is_exit())
      throw;
    beside.different = current_error();
  }
  return beside;
}

/// The body has raised, or continues without a trace. Removes the fake tensors that it stored
/// before, and replaces its traced numbers by Python's numbers.
void PythonTrace::leave_numbers(NumbersLeft &numbers) {
  const KeepError keep;
  recorder_->take_back();
  {
    const trace::PausedWithData paused;
    recorder_->replace_numbers();
  }
  numbers.replace();
}

/// Takes back what a staged block has stored without having run. What it is, for a message: empty
/// if there is nothing.
std::string PythonTrace::fake_tensors_left() {
  if (const std::string where = recorder_->take_back(); !where.empty())
    return where + " gets a tensor";
  if (!trace::left_behind().line)
    return {};
  PyGC_Collect(); // a cycle may hold it, which the body has let go of
  const Site where = trace::left_behind();
  return where.line ? "something outside keeps the tensor made at " + text(where) : std::string();
}

/// No fake tensor stays behind in what the body stored to.
void PythonTrace::restore() {
  const KeepError keep;
  recorder_->rebound();
  recorder_->restore();
}

void PythonTrace::check_arguments_unchanged() {
  const std::vector<Node> before = nodes_;
  const Flattened found = std::move(flattened_); // held: an address stays its own
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
        same = found.tensors[x.payload.slot] == flattened_.tensors[y.payload.slot];
      else if (x.reserved[0])
        same = found.roots[root] == flattened_.roots[root], ++root;
      else
        same = x.has_atom() ? x.payload.atom->same(*y.payload.atom)
                            : x.payload.integer == y.payload.integer;
    }
    if (!same)
      reject_change(p);
  }
}

std::shared_ptr<FrontEndState> PythonTrace::finish(Signature &signature,
                                                   const trace::Traced &traced) {
  const WithGil gil;
  auto state = std::make_shared<PythonState>();
  state->roots = flattened_.roots.size();
  state->captures = traced.captures.size();
  state->outputs = std::move(outputs_);
  std::vector<PyObject *> captured;
  for (std::size_t i = 0; i < traced.captures.size(); ++i) {
    const trace::Capture &c = traced.captures[i];
    captured.push_back(object_of(c.tensor));
    signature.captures.push_back({c.path, capture_metas_.at(captured.size() - 1)});
    signature.captures.back().held = recorder_->paths().path_of(captured.back()).empty();
  }
  for (std::size_t slot = 0; slot < flattened_.tensors.size(); ++slot) {
    PyObject *tensor = flattened_.tensors[slot];
    const std::string path = recorder_->paths().path_of(tensor);
    const bool given = std::any_of(gives_tensors_.begin(), gives_tensors_.end(),
                                   [&](const std::string &by) { return path.starts_with(by); });
    if (path.empty() || given)
      continue;
    captured.push_back(tensor);
    const TensorMeta &before = signature.slots[slot];
    signature.captures.push_back(
        {path, before.dynamic ? meta_of(tensor) : before, static_cast<std::int32_t>(slot)});
  }
  // Whose metadata the body read is guarded as a capture's, but is no input of the graph.
  for (PyObject *tensor : recorder_->paths().asked())
    if (std::find(captured.begin(), captured.end(), tensor) == captured.end() &&
        std::find(flattened_.tensors.begin(), flattened_.tensors.end(), tensor) ==
            flattened_.tensors.end()) {
      captured.push_back(tensor);
      signature.captures.push_back({recorder_->paths().path_of(tensor), meta_of(tensor)});
    }
  std::vector<PyObject *> handed_out = reached_.objects;
  handed_out.insert(handed_out.end(), reached_.containers.begin(), reached_.containers.end());
  state->containers_reached = reached_.containers.size();
  state->stored = std::move(stored_);
  if (recorder_->sides().once().empty()) // else later calls draw themselves
    draws_ = request_ || !function_.watch ? traced.draws : draws_of_user(traced.draws, *recorder_);
  state->guards = recorder_->finish(captured, handed_out, side_effects_);
  if (request_)
    recorder_->restore();
  allocations_.reset();
  state->once = recorder_->once();
  state->absent.assign(recorder_->paths().absent().begin(), recorder_->paths().absent().end());
  state->rebinds = !state->guards->rebindings().empty() || (uses_ && !uses_->changes.empty());
  state->does_more = state->rebinds || state->guards->hands_out();
  state->containers = std::move(uses_);
  state->calls = callbacks_of(*traced.graph->block());
  edited_ = traced.edited;
  caught_ = traced.caught;
  for (const UnknownCall &call : recorder_->unknown_calls())
    if (call.users)
      unknown_.push_back({call.what, call.where});
  const auto input = [&](std::uint32_t i) -> const at::Tensor & {
    const std::size_t slots = flattened_.tensors.size();
    return i < slots ? THPVariable_Unpack(flattened_.tensors[i])
                     : traced.captures[i - slots].tensor;
  };
  for (const GradRead &read : signature.grads)
    grads_read_.emplace_back(input(read.input), read.state);
  signature.guarded = state->guards->recorded(signature.atoms);
  for (const AtomRef &atom : signature.atoms)
    if (const auto *own = dynamic_cast<const PyAtom *>(atom.get()))
      state->runs_code |= own->runs_code();
  return state;
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
