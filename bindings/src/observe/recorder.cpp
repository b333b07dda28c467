#include "observe/recorder.h"

#include "base/autograph.h"
#include "base/forget_error.h"
#include "base/instructions.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "numbers/traced_number.h"
#include "observe/changes.h"
#include "observe/finish.h"
#include "observe/graph_numbers.h"
#include "observe/paths.h"
#include "observe/reads.h"
#include "observe/stores.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace tracehost::python {

Recorder::Recorder(PyObject *function, std::span<const Root> roots,
                   std::span<PyObject *const> tensors, bool watch_values, TraceHistory *history)
    : paths_(watch_values ? history : nullptr), history_(watch_values ? history : nullptr),
      watch_values_(watch_values) {
  for (PyObject *tensor : tensors)
    paths_.given(tensor);
  for (const Root &root : roots)
    paths_.root(root);
  paths_.reach_class(tensor_class());
  start(function);
}

/// The callable itself: what a functools.partial, a bound method or a callable object leads to.
void Recorder::start(PyObject *callable) {
  if (PyMethod_Check(callable)) {
    paths_.root({.name = "self", .object = PyMethod_GET_SELF(callable)});
    callable = PyMethod_GET_FUNCTION(callable);
  }
  if (PyFunction_Check(callable)) {
    functions_.emplace(callable, Owned(Py_NewRef(callable)));
    paths_.function(callable, "", /*weak=*/false);
  } else {
    paths_.root({.name = "self", .object = callable});
  }
}

const Recorder::UsersCode &Recorder::users_code(PyCodeObject *ran) {
  PyObject *key = reinterpret_cast<PyObject *>(ran);
  if (const auto found = codes_.find(key); found != codes_.end())
    return found->second;
  const bool generated = is_generated(ran);
  UsersCode made{Owned(Py_NewRef(key)), original_code(ran), generated};
  for (const Owned *code : {&made.ran, &made.users}) {
    PyObject *constants = reinterpret_cast<PyCodeObject *>(code->get())->co_consts;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constants); ++i)
      if (PyObject *constant = PyTuple_GET_ITEM(constants, i); PyCode_Check(constant))
        made_.insert(constant);
  }
  return codes_.emplace(key, std::move(made)).first->second;
}

/// Cells of a function that the body makes are the body's own, unless it is reached otherwise.
void Recorder::function(PyObject *function) {
  auto *f = reinterpret_cast<PyFunctionObject *>(function);
  if (functions_.contains(function) || is_library(origin_of_globals(f->func_globals)))
    return;
  paths_.code_of(function);
  if (!f->func_closure && !f->func_defaults && !f->func_kwdefaults)
    return;
  if (made_.contains(f->func_code) && !paths_.knows(function))
    return;
  functions_.emplace(function, Owned(Py_NewRef(function)));
  paths_.function(function, utf8(f->func_qualname), /*weak=*/true);
}

/// `__call__`, `__getitem__` and the like run without being named: the class was asked for them.
void Recorder::method(const Frame &frame, PyCodeObject *code) {
  const std::string_view name = utf8(code->co_name);
  PyObject *self = code->co_argcount > 0 ? frame.variables[0] : nullptr;
  if (name.starts_with("__") && self && !PyCell_Check(self))
    paths_.class_attribute(Py_TYPE(self), code->co_name);
}

/// Functions of the standard library that find what they call by C code or by what they keep.
void Recorder::enter_library(const Frame &frame) {
  const std::string_view name = utf8(frame.code->co_qualname);
  const bool dispatches =
      name == "singledispatch.<locals>.dispatch" || name == "singledispatch.<locals>.register";
  if (dispatches && frame.function && PyFunction_Check(frame.function))
    paths_.registry_of(frame.function);
  else if (name == "import_module" && frame.variables[0] && PyUnicode_Check(frame.variables[0]))
    paths_.imported(frame.variables[0], /*replaced=*/true);
}

void Recorder::enter(const Frame &frame) {
  const KeepError keep;
  if (origin_of(frame.code) == Origin::python)
    enter_library(frame);
  const UsersCode &code = users_code(frame.code);
  method(frame, reinterpret_cast<PyCodeObject *>(code.users.get()));
  if (!code.generated && frame.function && PyFunction_Check(frame.function))
    function(original_function(frame.function));
}

const Instruction *Recorder::coming(const Frame &frame, int unit) {
  if (code_object(frame) != at_code_.get()) {
    at_code_ = Owned(Py_NewRef(code_object(frame)));
    instructions_ = instructions_of(frame.code);
  }
  if (!instructions_ || unit < 0 || unit >= static_cast<int>(instructions_->size())) {
    missed("its bytecode could not be read");
    return nullptr;
  }
  const Instruction &instruction = (*instructions_)[unit];
  // 3.11 reports EXTENDED_ARG in place of what it extends, other versions may report both.
  const bool again =
      unit != instruction.start && at_frame_ == &frame && at_start_ == instruction.start;
  at_frame_ = &frame;
  at_start_ = instruction.start;
  if (again || instruction.action == Action::none)
    return nullptr;
  if (instruction.depth < 0 || instruction.action == Action::unknown ||
      !is_depth(frame, instruction.depth)) {
    missed("its bytecode is not known");
    return nullptr;
  }
  return &instruction;
}

void Recorder::observe(const Frame &frame, const Instruction &instruction, bool called) {
  const KeepError keep;
  reads_.observe(frame, instruction, called);
  forget_error();
}

void Recorder::missed(std::string why) {
  if (missed_.empty())
    missed_ = std::move(why);
}

namespace {

/// Whether the body stores a value that follows from what a call compares: then each call stores
/// the same, or what the graph computes. What it has read in the slot is compared, too. An object
/// is found by its path, or made again.
bool is_known_value(const Change &change, const Container &c) {
  return change.now && (change.slot >= 0 || !c.read);
}

/// A store of tensors, of an object, of None or a number; a deletion; tensors appended to a list;
/// elements of a list or deque that moved.
bool can_be_repeated(const Change &change, const Graph &graph) {
  if (is_check_of_optimizer(change.key.get())) // to compare it would trace the second step again
    return false;
  const Container &c = graph.containers[change.container];
  if (c.place == Place::kind ||
      (c.place == Place::function && change.slot >= 0 && c.slots[change.slot].index < 0))
    return false; // what Python keeps of a class or a function
  if ((change.slot < 0 && !change.key && !change.appended && !change.rewrites) ||
      graph.objects[c.object].library)
    return false;
  if (!change.now)
    return change.slot >= 0 && c.place != Place::items;
  if (is_made_eagerly(change.now.get()))
    return false;
  if (change.appended) // a list may grow by any value
    return change.has_tensor || change.has_number;
  return change.rewrites || change.has_tensor || change.now.get() == Py_None ||
         is_known_value(change, c);
}

} // namespace

std::span<Rebound> Recorder::rebound() {
  const Graph &graph = paths_.graph();
  changes_ = changes_of(graph, paths_.given(), sides_.has_checks());
  // `self.weight`, an attribute, may have become a parameter of the module: one change in two
  // dicts.
  const bool eager_region = std::any_of(changes_.begin(), changes_.end(), [](const Change &change) {
    return is_made_eagerly(change.now.get());
  });
  for (Change &change : changes_) {
    if (!can_be_repeated(change, graph) || (eager_region && !change.now))
      continue;
    const Storer storer = stores_.of(change.container, change.slot);
    if (!storer.body)
      continue;
    change.rebound = static_cast<int>(rebound_.size());
    rebound_.push_back({path_of(change, graph), storer.where,
                        change.rewrites ? change.added.get() : change.now.get(), change.rewrites});
  }
  return rebound_;
}

void Recorder::restore() {
  for (const Change &change : changes_)
    if (change.rebound >= 0)
      python::restore(change, paths_.graph());
}

std::string Recorder::take_back() {
  const KeepError keep;
  const Graph &graph = paths_.graph();
  if (changes_.empty())
    changes_ = changes_of(graph, paths_.given(), sides_.has_checks());
  std::string first;
  for (const Change &change : changes_) {
    if (!stores_fake_tensor(change, graph))
      continue;
    const Storer storer = stores_.of(change.container, change.slot);
    if (first.empty())
      first = path_of(change, graph) + (storer.where.line ? " at " + text(storer.where) : "");
    take_back_fake_tensors(change, graph);
  }
  return first;
}

/// An object of a class of Python that holds its attributes itself.
static bool is_instance(PyObject *object) {
  return has_user_attributes(Py_TYPE(object)) && !PyType_Check(object) && !is_collection(object) &&
         !is_of_a_thread(object) && !PyObject_TypeCheck(object, known().nn_module);
}

void Recorder::replace_numbers() {
  const Graph &graph = paths_.graph();
  for (Change &change : changes_) {
    if (!change.has_number || !change.now)
      continue;
    without_graph_numbers(owner_of(change, graph));
    Owned number = without_graph_numbers(change.now.get());
    if (change.appended || !number)
      continue;
    store(change, graph, number.get());
    change.now = std::move(number);
  }
  for (Change &change : changes_) {
    if (graph.containers[change.container].place != Place::entries)
      continue;
    replace_keys(owner_of(change, graph));
    if (change.key && is_traced_number(change.key.get()))
      change.key = Owned(number_of(THPVariable_Unpack(change.key.get())));
  }
}

void Recorder::replace(const Rebound &rebound, PyObject *value) {
  const Graph &graph = paths_.graph();
  for (Change &change : changes_) {
    if (change.rebound < 0 || &rebound_[change.rebound] != &rebound)
      continue;
    store(change, graph, value);
    (change.rewrites ? change.added : change.now) = Owned(Py_NewRef(value));
    if (change.rewrites)
      change.now = Owned(PySequence_List(owner_of(change, graph)));
  }
  forget_error();
}

/// A dict of `param_groups`: its learning rate changes between the calls.
static bool is_group_of_optimizer(const Graph &graph, const Container &c) {
  const Object &group = graph.objects[c.object];
  if (c.place != Place::entries || group.container < 0)
    return false;
  const Object &groups = graph.objects[graph.containers[group.container].object];
  if (groups.container < 0)
    return false;
  PyObject *name = graph.containers[groups.container].slots[groups.slot].key;
  return name && PyUnicode_CheckExact(name) &&
         PyUnicode_CompareWithASCIIString(name, "param_groups") == 0;
}

/// `self.state = State(...)`, `rows.pop(0)`: each call finds another object there, of which what
/// the body reads is the same.
void Recorder::mark_replaced() {
  const Graph &graph = paths_.graph();
  for (const Change &change : changes_) {
    if (change.rebound < 0 || !rebound_[change.rebound].repeated || !change.now)
      continue;
    const Container &c = graph.containers[change.container];
    if (change.slot >= 0)
      mark_replaced(c.slots[change.slot], change.now.get());
    for (const Slot &slot : c.slots)
      if (change.rewrites && slot.value && is_instance(slot.value))
        mark_replaced(slot);
  }
}

/// Whether the slot leads to an object in whose place another of its class may come from now on.
bool Recorder::mark_replaced(const Slot &slot) {
  if (slot.expect != Expect::object || !slot.primary)
    return false;
  Object &o = paths_.graph().objects[slot.object];
  if (o.identified || o.replaced || o.library)
    return false;
  o.alike = o.replaced = true;
  return true;
}

/// `now`: what the body has made in place of what the slot held.
void Recorder::mark_replaced(const Slot &slot, PyObject *now) {
  if (!now || !slot.value || Py_TYPE(now) != Py_TYPE(slot.value) || paths_.knows(now) ||
      !is_instance(now) || !mark_replaced(slot))
    return;
  const Graph &graph = paths_.graph();
  for (const Container &c : graph.containers)
    if (c.object == slot.object && (c.place == Place::instance || c.place == Place::members))
      for (const Slot &inner : c.slots)
        mark_replaced(inner, read(c, inner, now));
}

/// Slots that the body has read and then stored a number to, and floats of an optimizer's groups:
/// the next trace may take them as inputs.
void Recorder::note_numbers() {
  if (!history_)
    return;
  const Graph &graph = paths_.graph();
  for (std::size_t c = 0; c < graph.containers.size(); ++c)
    for (std::size_t s = 0;
         is_group_of_optimizer(graph, graph.containers[c]) && s < graph.containers[c].slots.size();
         ++s) {
      const Slot &slot = graph.containers[c].slots[s];
      if (slot.read && slot.value && PyFloat_CheckExact(slot.value))
        history_->note(graph.path(static_cast<int>(c), static_cast<int>(s)), slot.value);
    }
  for (const auto &[container, number] : sides_.numbers())
    history_->note_side(graph.path(container, number));
  for (std::size_t c = 0; c < graph.containers.size(); ++c)
    for (std::size_t s = 0;
         graph.objects[graph.containers[c].object].replaced && s < graph.containers[c].slots.size();
         ++s)
      if (const Slot &slot = graph.containers[c].slots[s]; slot.read && slot.value)
        history_->note(graph.path(static_cast<int>(c), static_cast<int>(s)), slot.value);
  for (const Change &change : changes_) {
    if (change.rewrites) {
      const Container &c = graph.containers[change.container];
      for (std::size_t s = 0; s < c.slots.size(); ++s)
        if (c.slots[s].value)
          history_->note(graph.path(change.container, static_cast<int>(s)), c.slots[s].value);
    }
    if (change.rebound < 0 || change.slot < 0)
      continue;
    const Slot &slot = graph.containers[change.container].slots[change.slot];
    if (slot.read && slot.value && change.now && (change.has_number || !change.has_tensor))
      history_->note(graph.path(change.container, change.slot), slot.value);
  }
}

std::shared_ptr<GraphGuards> Recorder::finish(std::span<PyObject *const> captured,
                                              std::span<PyObject *const> handed_out,
                                              std::vector<SideEffect> &side_effects) {
  for (const UnknownCall &call : unknown_calls())
    paths_.graph().unknown_calls.push_back(call.what + " at " + text(call.where));
  Finish finish(paths_, stores_, calls_, captured, handed_out);
  mark_replaced();
  note_numbers();
  auto guards = finish.run(watch_values_, changes_, rebound_, side_effects);
  once_ = finish.once();
  if (!missed_.empty())
    once_ = "what the body reads could not be observed: " + missed_;
  else if (const std::string &what = sides_.once(); !what.empty())
    once_ = "the body " + what + ": no hit repeats that";
  else if (const std::string &what = paths_.once(); !what.empty() && watch_values_)
    once_ = "the body " + what + ": it is traced again";
  return guards;
}

} // namespace tracehost::python
