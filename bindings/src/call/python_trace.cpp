#include "call/python_trace.h"

#include "base/autograph.h"
#include "base/checked.h"
#include "base/errors.h"
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
std::vector<trace::BakedRead> draws_of_user(const std::vector<trace::BakedRead> &draws,
                                            Recorder &recorder) {
  std::vector<trace::BakedRead> users;
  for (const trace::BakedRead &draw : draws) {
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
  if (!call_.converted_ && !request_)
    containers_.emplace(bound_, function_.binder.fixed());
  NumbersLeft numbers;
  {
    const Profile profile(*recorder_);
    result_ = Owned(typed ? call_with_placeholders() : call_.call_body());
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
    if (call_.goes_on(trace::Rejection::trace)) { // the call ends with what the body has returned
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

/// Describes what the body returned and stored, as trees over outputs of the graph.
void PythonTrace::describe(BodyResult &result) {
  MadeObjects made;
  std::vector<Owned> tensors;
  result.outputs = describe_result(result_.get(), function_.name, tensors, returnable(), made);
  for (const Owned &t : tensors) {
    if (!can_be_wrapped(t.get()))
      trace::reject(
          trace::Rejection::trace,
          fmt::format("{} returned a new {}, which a later call would return as a plain Tensor. "
                      "Return result.as_subclass(torch.Tensor), and wrap it outside.",
                      function_.name, Py_TYPE(t.get())->tp_name));
    result.tensors.push_back(THPVariable_Unpack(t.get()));
    outputs_.push_back(meta_of(t.get()));
  }
  for (Rebound &rebound : recorder_->rebound())
    repeat(rebound, made, result.tensors);
  repeat_changes(made, result);
  drop_held(made, result);
  link(trees(result));
}

/// By number: the result, then what is stored.
std::vector<OutputSpec *> PythonTrace::trees(BodyResult &result) {
  std::vector<OutputSpec *> all{&result.outputs};
  for (OutputSpec &spec : stored_)
    all.push_back(&spec);
  return all;
}

/// What something unseen refers to as well, later calls can't make again.
void PythonTrace::drop_held(const MadeObjects &made, BodyResult &result) {
  for (const auto &[object, one] : made.found) {
    if (!is_held_elsewhere(object, one))
      continue;
    if (one.tree == 0)
      reject_held(object, function_.name);
    const std::vector<bool> has_it = trees_with(trees(result), one);
    for (Rebound &rebound : recorder_->rebound_so_far())
      rebound.repeated &= !has_it[rebound.tree];
    for (std::size_t i = 0; uses_ && i < uses_->changes.size(); ++i)
      if (has_it[uses_->changes[i].values])
        reject_change(
            std::min(uses_->changes[i].path.argument, function_.parameters->names.size() - 1));
  }
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
    beside.different = current_error();
    PyErr_Clear();
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

/// The same for an unsupported body, whose result may be anything.
void PythonTrace::return_as_eager() {
  std::vector<Owned> tensors;
  BodyResult result;
  try {
    result.outputs = describe_result(result_.get(), function_.name, tensors, returnable());
  } catch (const python_error &) {
    return; // no graph would have returned it
  }
  for (const Owned &t : tensors)
    result.tensors.push_back(THPVariable_Unpack(t.get()));
  return_as_eager(result);
}

/// A number that the graph computes is one for the caller, and in what is stored. What a branch
/// left as it was is the tensor that went into the branch.
void PythonTrace::return_as_eager(BodyResult &result) {
  if (request_) // nobody gets its result, and fake tensors have no data
    return;
  std::vector<bool> joined;
  torch::jit::Stack outputs;
  for (const at::Tensor &t : result.tensors) {
    at::Tensor original = trace::in_eager(t);
    joined.push_back(!original.is_same(t));
    outputs.emplace_back(std::move(original));
  }
  const auto all = trees(result);
  std::vector<bool> differ;
  for (const OutputSpec *tree : all)
    differ.push_back(returns_numbers(*tree) ||
                     std::any_of(tree->nodes.begin(), tree->nodes.end(), [&](const Node &node) {
                       return node.kind == Kind::tensor && joined[node.payload.slot];
                     }));
  if (std::find(differ.begin(), differ.end(), true) == differ.end())
    return;
  differ = linked(all, std::move(differ));
  const trace::PausedWithData paused;
  const auto given = given_at_trace();
  const auto containers = containers_at_trace();
  std::vector<MadeOnce> made;
  RunValues values{result.outputs, stored_, outputs, given, containers, made};
  for (const Rebound &rebound : recorder_->rebound_so_far())
    if (rebound.repeated && rebound.tree && differ[rebound.tree])
      recorder_->replace(rebound, checked(build_stored(values, rebound.tree)).get());
  change_as_eager(values, differ);
  if (differ[0])
    result_ = checked(build_result(values));
}

/// Whether the body made `tensor` and set attributes on it. A later call makes another tensor.
bool PythonTrace::has_own_attributes(PyObject *tensor) const {
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  if (!attributes || !*attributes || PyDict_GET_SIZE(*attributes) == 0 || is_number(tensor))
    return false;
  const auto &given = flattened_.tensors;
  return std::find(given.begin(), given.end(), tensor) == given.end() &&
         !Allocations::made_aside(tensor) && recorder_->paths().path_of(tensor).empty();
}

/// Whether a later call hands out such a tensor: it wraps a new one as torch.Tensor, and one that
/// exists keeps its object.
bool PythonTrace::can_be_wrapped(PyObject *tensor) const {
  return reinterpret_cast<PyObject *>(Py_TYPE(tensor)) == THPVariableClass ||
         is_traced_number(tensor) ||
         std::find(flattened_.tensors.begin(), flattened_.tensors.end(), tensor) !=
             flattened_.tensors.end() ||
         Allocations::made_aside(tensor) || !recorder_->paths().path_of(tensor).empty();
}

/// The same, where a later call can set them again. Else the trace serves its own call.
bool PythonTrace::has_attributes_of_a_call(PyObject *tensor) const {
  if (!has_own_attributes(tensor))
    return false;
  std::vector<Owned> tensors;
  ReachedObjects inner{reached_.as, {}, {}};
  try {
    const Owned attributes(Py_NewRef(*_PyObject_GetDictPtr(tensor)));
    MadeObjects made;
    describe_result(attributes.get(), function_.name, tensors,
                    {flattened_.roots, containers_before_, &inner, {}}, made);
    for (const Owned &t : tensors)
      if (t.get() == tensor || !can_be_wrapped(t.get()) || has_own_attributes(t.get()))
        raise(PyExc_TypeError, "an attribute that no call makes again");
  } catch (const python_error &) {
    PyErr_Clear();
    recorder_->paths().serves_once(
        "makes a tensor with an attribute that a later call could not make again");
    return false;
  }
  return true;
}

/// Makes the tensors of `value` outputs of the graph. The number of its tree; 0 where no later call
/// can make the like.
std::uint32_t PythonTrace::as_outputs(PyObject *value, const std::string &name, MadeObjects &made,
                                      std::vector<at::Tensor> &outputs) {
  std::vector<Owned> tensors;
  OutputSpec spec;
  const std::size_t objects = reached_.objects.size(), containers = reached_.containers.size();
  made.begin(static_cast<std::uint32_t>(stored_.size() + 1));
  const auto failed = [&] {
    reached_.objects.resize(objects);
    reached_.containers.resize(containers);
    return std::uint32_t{0};
  };
  try {
    spec = describe_result(value, name, tensors, known_objects(), made);
  } catch (const python_error &) { // it holds an object that only the body can make
    PyErr_Clear();
    return failed();
  }
  for (const Owned &t : tensors)
    if (!can_be_wrapped(t.get())) {
      made.undo();
      return failed();
    }
  for (Node &node : spec.nodes)
    if (node.kind == Kind::tensor)
      node.payload.slot += static_cast<std::uint32_t>(outputs.size());
  for (const Owned &t : tensors)
    outputs.push_back(THPVariable_Unpack(t.get()));
  stored_.push_back(std::move(spec));
  return static_cast<std::uint32_t>(stored_.size());
}

/// Makes what a slot was rebound to outputs of the graph, if later calls can store the like.
void PythonTrace::repeat(Rebound &rebound, MadeObjects &made, std::vector<at::Tensor> &outputs) {
  rebound.repeated = true;
  if (!rebound.value)
    return;
  rebound.tree = as_outputs(rebound.value, rebound.path, made, outputs);
  rebound.repeated = rebound.tree != 0;
  made.add_references(rebound.value, 1); // of the slot, and of what notes the change
  if (rebound.rewrites)
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rebound.value); ++i)
      made.add_references(PyTuple_GET_ITEM(rebound.value, i), 2);
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
  baked_ = traced.baked;
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
  for (const ValueGuard &guard : signature.values)
    read_.emplace_back(input(guard.input), guard);
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
