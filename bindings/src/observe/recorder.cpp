#include "observe/recorder.h"

#include "base/autograph.h"
#include "base/cpython.h"
#include "base/instructions.h"
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
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tracehost::python {

struct Recorder::State {
  explicit State(TraceHistory *numbers) : paths(numbers), history(numbers) {}

  Paths paths;
  TraceHistory *history;
  Stores stores{paths};
  Reads reads{paths, stores};
  bool watch_values = true;
  std::unordered_set<PyObject *> functions; ///< seen running; strong
  std::unordered_set<PyObject *> codes;     ///< that ran; strong
  std::unordered_set<PyObject *> made;      ///< code constants of these: functions of theirs may be
                                            ///< made by the body, then their cells are too
  bool calls = false;                       ///< the graph calls code
  Owned at_code; ///< where the instruction seen last is; held, as it keeps `instructions`
  const Instructions *instructions = nullptr; ///< of that code
  const Frame *at_frame = nullptr;
  int at_start = -1;
  std::vector<Change> changes;
  std::vector<Rebound> rebound;
  std::string missed, once;
  /// What autograph has made of the user's code, by the code object that ran (strong).
  struct UsersCode {
    PyCodeObject *code; ///< the user's; strong
    bool generated;     ///< a part that an operator runs: its variables are the function's own
  };
  std::unordered_map<PyObject *, UsersCode> users;

  ~State();

  const UsersCode &users_code(PyCodeObject *code);
  void note_numbers();
  void start(PyObject *callable, const std::string &name);
  void code(PyCodeObject *code);
  void function(PyObject *function);
  void method(PyFrameObject *frame, PyCodeObject *code);
};

Recorder::State::~State() {
  for (const auto &[key, user] : users) {
    Py_DECREF(key);
    Py_DECREF(reinterpret_cast<PyObject *>(user.code));
  }
  for (const auto *held : {&functions, &codes})
    for (PyObject *object : *held)
      Py_DECREF(object);
}

/// The callable itself: what a functools.partial, a bound method or a callable object leads to.
void Recorder::State::start(PyObject *callable, const std::string &name) {
  if (PyMethod_Check(callable)) {
    paths.root({.name = "self", .object = PyMethod_GET_SELF(callable)});
    callable = PyMethod_GET_FUNCTION(callable);
  }
  if (PyFunction_Check(callable)) {
    if (functions.insert(callable).second)
      Py_INCREF(callable);
    paths.function(callable, name, /*weak=*/false);
  } else {
    paths.root({.name = "self", .object = callable});
  }
}

void Recorder::State::code(PyCodeObject *code) {
  if (!codes.insert(reinterpret_cast<PyObject *>(code)).second)
    return;
  Py_INCREF(reinterpret_cast<PyObject *>(code));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i)
    if (PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i); PyCode_Check(constant))
      made.insert(constant);
}

const Recorder::State::UsersCode &Recorder::State::users_code(PyCodeObject *code) {
  PyObject *key = reinterpret_cast<PyObject *>(code);
  const auto found = users.find(key);
  if (found != users.end())
    return found->second;
  const bool generated = is_generated(code);
  Owned original = original_code(code);
  Py_INCREF(key);
  return users
      .emplace(key, UsersCode{reinterpret_cast<PyCodeObject *>(original.release()), generated})
      .first->second;
}

/// Cells of a function that the body makes are the body's own, unless it is reached otherwise.
void Recorder::State::function(PyObject *function) {
  auto *f = reinterpret_cast<PyFunctionObject *>(function);
  if (functions.contains(function) || is_library(origin_of_globals(f->func_globals)))
    return;
  paths.code_of(function);
  if (!f->func_closure && !f->func_defaults && !f->func_kwdefaults)
    return;
  if (made.contains(f->func_code) && !paths.knows(function))
    return;
  functions.insert(Py_NewRef(function));
  paths.function(function, utf8(f->func_qualname), /*weak=*/true);
}

/// `__call__`, `__getitem__` and the like run without being named: the class was asked for them.
void Recorder::State::method(PyFrameObject *frame, PyCodeObject *code) {
  const std::string_view name = utf8(code->co_name);
  PyObject *self = code->co_argcount > 0 ? frame_of(frame)->variables[0] : nullptr;
  if (name.starts_with("__") && self && !PyCell_Check(self))
    paths.class_attribute(Py_TYPE(self), code->co_name);
}

Recorder::Recorder(PyObject *function, std::span<const Root> roots,
                   std::span<PyObject *const> tensors, bool watch_values, TraceHistory *history)
    : state_(std::make_unique<State>(watch_values ? history : nullptr)) {
  for (PyObject *tensor : tensors)
    state_->paths.given(tensor);
  state_->watch_values = watch_values;
  for (const Root &root : roots)
    state_->paths.root(root);
  state_->paths.reach_class(tensor_class());
  state_->start(function, "");
}

Recorder::~Recorder() = default;

void Recorder::enter(PyFrameObject *frame) {
  const KeepError keep;
  PyCodeObject *ran = PyFrame_GetCode(frame);
  const State::UsersCode &user = state_->users_code(ran);
  state_->code(user.code);
  state_->code(ran);
  state_->method(frame, user.code);
  if (PyObject *function = user.generated ? nullptr : function_of(frame))
    state_->function(original_function(function));
  Py_DECREF(reinterpret_cast<PyObject *>(ran));
}

const Instruction *Recorder::coming(const Frame &frame, int unit) {
  State &s = *state_;
  if (reinterpret_cast<PyObject *>(frame.code) != s.at_code.get()) {
    s.at_code = Owned(Py_NewRef(reinterpret_cast<PyObject *>(frame.code)));
    s.instructions = instructions_of(frame.code);
  }
  if (!s.instructions || unit < 0 || unit >= static_cast<int>(s.instructions->size())) {
    missed("its bytecode could not be read");
    return nullptr;
  }
  const Instruction &instruction = (*s.instructions)[unit];
  // 3.11 reports EXTENDED_ARG in place of what it extends, other versions may report both.
  const bool again =
      unit != instruction.start && s.at_frame == &frame && s.at_start == instruction.start;
  s.at_frame = &frame;
  s.at_start = instruction.start;
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
  state_->reads.observe(frame, instruction, called);
  PyErr_Clear();
}

void Recorder::missed(std::string why) {
  if (state_->missed.empty())
    state_->missed = std::move(why);
}

void Recorder::serves_once(std::string what) { state_->paths.serves_once(std::move(what)); }

void Recorder::begin_call() { state_->calls = true; }

const std::vector<UnknownCall> &Recorder::unknown_calls() const {
  return state_->reads.unknown_calls();
}

const std::string &Recorder::once() const { return state_->once; }
const std::unordered_set<PyObject *> &Recorder::absent() const { return state_->paths.absent(); }

bool Recorder::reaches(PyObject *object) const { return state_->paths.knows(object); }
bool Recorder::is_enclosed(PyObject *object) const { return state_->paths.is_enclosed(object); }

const std::vector<PyObject *> &Recorder::asked() const { return state_->paths.asked(); }

bool Recorder::gives(PyObject *tensor) const { return state_->paths.numbers().gives(tensor); }

void Recorder::body_ended() {
  const KeepError keep;
  state_->paths.numbers().restore();
}

std::string Recorder::path_of(PyObject *tensor) {
  const Paths::Position *at = state_->paths.tensor(tensor);
  return at ? state_->paths.graph().path(at->container, at->slot) : std::string();
}

namespace {

/// A dtype, a device: each is the same object, or equal, at every call.
bool is_of_torch(PyObject *value) {
  const std::string_view type = Py_TYPE(value)->tp_name;
  return type == "torch.dtype" || type == "torch.device" || type == "torch.layout" ||
         type == "torch.memory_format";
}

/// A number, a string, a dtype, a torch.Size; a tuple, list or dict of such, which each call makes
/// again.
bool is_constant(PyObject *value, int depth = 0) {
  constexpr int deepest = 20; // of those that hold themselves, too
  if (PyDict_CheckExact(value) && depth < deepest) {
    PyObject *key, *item;
    for (Py_ssize_t at = 0; PyDict_Next(value, &at, &key, &item);)
      if (!is_plain(Py_TYPE(key), key) || !is_constant(item, depth + 1))
        return false;
    return true;
  }
  const bool tuple =
      PyTuple_CheckExact(value) || std::string_view(Py_TYPE(value)->tp_name) == "torch.Size";
  if ((!tuple && !PyList_CheckExact(value)) || depth >= deepest)
    return is_plain(Py_TYPE(value), value) || is_of_torch(value);
  for (Py_ssize_t i = 0; i < Py_SIZE(value); ++i)
    if (!is_constant(PySequence_Fast_ITEMS(value)[i], depth + 1))
      return false;
  return true;
}

/// Whether the body stores a value that follows from what a call compares: then each call stores
/// the same, or what the graph computes. What it has read in the slot is compared, too.
bool is_known_value(const Change &change, const Container &c) {
  return change.now && (change.slot >= 0 || !c.read) &&
         (change.has_number || is_constant(change.now.get()));
}

/// A store of tensors, of None or a number, a deletion, tensors appended to a list.
bool can_be_repeated(const Change &change, const Graph &graph) {
  if (is_check_of_optimizer(change.key.get())) // to compare it would trace the second step again
    return false;
  if ((change.slot < 0 && !change.key && !change.appended) ||
      graph.objects[graph.containers[change.container].object].library)
    return false;
  const Place place = graph.containers[change.container].place;
  if (graph.containers[change.container].rewritten &&
      (place == Place::items || place == Place::deque))
    return false;
  if (change.appended) // a list may grow by any value
    return (change.has_tensor || change.has_number) && !is_lifted(change.now.get());
  if (!change.now)
    return change.slot >= 0 && graph.containers[change.container].place != Place::items;
  return (change.has_tensor || change.now.get() == Py_None ||
          is_known_value(change, graph.containers[change.container])) &&
         !is_lifted(change.now.get());
}

} // namespace

std::span<Rebound> Recorder::rebound() {
  State &s = *state_;
  s.changes = changes_of(s.paths.graph());
  // `self.weight`, an attribute, may have become a parameter of the module: one change in two
  // dicts.
  const bool lifted = std::any_of(s.changes.begin(), s.changes.end(),
                                  [](const Change &change) { return is_lifted(change.now.get()); });
  for (Change &change : s.changes) {
    if (!can_be_repeated(change, s.paths.graph()) || (lifted && !change.now))
      continue;
    const Storer storer = s.stores.of(change.container, change.slot);
    if (!storer.body)
      continue;
    change.rebound = static_cast<int>(s.rebound.size());
    s.rebound.push_back(
        {python::path_of(change, s.paths.graph()), storer.where, change.now.get(), std::nullopt});
  }
  return s.rebound;
}

void Recorder::put_back() {
  for (const Change &change : state_->changes)
    if (change.rebound >= 0)
      python::put_back(change, state_->paths.graph());
}

Stores &Recorder::stores() { return state_->stores; }
TraceHistory *Recorder::history() { return state_->history; }

std::string Recorder::take_back(bool (*is_it)(PyObject *)) {
  State &s = *state_;
  const KeepError keep;
  if (s.changes.empty())
    s.changes = changes_of(s.paths.graph());
  std::string first;
  for (const Change &change : s.changes) {
    if (!stores_fake_tensor(change, s.paths.graph(), is_it))
      continue;
    const Storer storer = s.stores.of(change.container, change.slot);
    if (first.empty())
      first = python::path_of(change, s.paths.graph()) +
              (storer.where.line ? " at " + text(storer.where) : "");
    take_back_fake_tensors(change, s.paths.graph(), is_it);
  }
  return first;
}

void Recorder::replace_numbers() {
  const Graph &graph = state_->paths.graph();
  for (Change &change : state_->changes) {
    if (!change.has_number || !change.now)
      continue;
    const Container &c = graph.containers[change.container];
    PyObject *owner = graph.objects[c.object].object;
    without_graph_numbers(owner);
    Owned number = without_graph_numbers(change.now.get());
    if (change.appended || !number)
      continue;
    const int index = change.slot < 0 ? -1 : c.slots[change.slot].index;
    if (!write(c.place, change.key.get(), index, owner, number.get()))
      PyErr_Clear();
    change.now = std::move(number);
  }
  for (Change &change : state_->changes) {
    const Container &c = graph.containers[change.container];
    if (c.place != Place::entries)
      continue;
    replace_keys(graph.objects[c.object].object);
    if (change.key && is_traced_number(change.key.get()))
      change.key = Owned(number_of(THPVariable_Unpack(change.key.get())));
  }
}

void Recorder::replace(const Rebound &rebound, PyObject *value) {
  State &s = *state_;
  const Graph &graph = s.paths.graph();
  for (Change &change : s.changes) {
    if (change.rebound < 0 || &s.rebound[change.rebound] != &rebound)
      continue;
    const Container &c = graph.containers[change.container];
    const int index = change.slot < 0 ? -1 : c.slots[change.slot].index;
    if (!change.appended &&
        !write(c.place, change.key.get(), index, graph.objects[c.object].object, value))
      PyErr_Clear();
    change.now = Owned(Py_NewRef(value));
  }
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

/// Slots that the body has read and then stored a number to, and floats of an optimizer's groups:
/// the next trace may take them as inputs.
void Recorder::State::note_numbers() {
  if (!history)
    return;
  const Graph &graph = paths.graph();
  for (std::size_t c = 0; c < graph.containers.size(); ++c)
    for (std::size_t s = 0;
         is_group_of_optimizer(graph, graph.containers[c]) && s < graph.containers[c].slots.size();
         ++s) {
      const Slot &slot = graph.containers[c].slots[s];
      if (slot.read && slot.value && PyFloat_CheckExact(slot.value))
        history->note(graph.path(static_cast<int>(c), static_cast<int>(s)), slot.value);
    }
  for (const Change &change : changes) {
    if (change.rebound < 0 || change.slot < 0)
      continue;
    const Slot &slot = paths.graph().containers[change.container].slots[change.slot];
    if (slot.read && slot.value && change.now && (change.has_number || !change.has_tensor))
      history->note(paths.graph().path(change.container, change.slot), slot.value);
  }
}

std::shared_ptr<Guards> Recorder::finish(std::span<PyObject *const> captured,
                                         std::span<PyObject *const> handed_out,
                                         std::vector<SideEffect> &side_effects) {
  State &s = *state_;
  for (const UnknownCall &call : s.reads.unknown_calls())
    s.paths.graph().unknown_calls.push_back(call.what + " at " + text(call.where));
  Finish finish(s.paths, s.stores, s.calls, captured, handed_out);
  s.note_numbers();
  auto guards = finish.run(s.watch_values, s.changes, s.rebound, side_effects);
  s.once = finish.once();
  if (!s.missed.empty())
    s.once = "what the body reads could not be observed: " + s.missed;
  else if (const std::string &what = s.paths.once(); !what.empty() && s.watch_values)
    s.once = "the body " + what + ": it is traced again";
  return guards;
}

} // namespace tracehost::python
