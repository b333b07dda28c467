#include "environment/recorder.h"

#include "conversion.h"
#include "environment/changes.h"
#include "environment/code.h"
#include "environment/cpython.h"
#include "environment/finish.h"
#include "environment/gil.h"
#include "environment/known.h"
#include "environment/walker.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tracehost::python {

struct Recorder::State {
  Walker walker;
  bool watch_values = true;
  std::unordered_set<PyCodeObject *> seen;
  std::vector<PyCodeObject *> ran;          ///< the same, in order; strong
  std::unordered_set<PyObject *> functions; ///< with cells or defaults, seen running; strong
  std::unordered_set<PyObject *> made; ///< code constants of code that ran: functions of theirs
                                       ///< may be made by the body, then their cells are too
  PyObject *last = nullptr;            ///< code entered last; borrowed from `users`
  bool calls = false;                  ///< the graph calls code
  std::vector<PyCodeObject *> called;  ///< some of it; strong
  std::vector<Change> changes;
  std::vector<Rebound> rebound;
  std::string once;
  /// What autograph has made of the user's code, by the code object that ran (strong).
  struct UsersCode {
    PyCodeObject *code; ///< the user's; strong
    bool generated;     ///< a part that an operator runs: its variables are the function's own
  };
  std::unordered_map<PyObject *, UsersCode> users;

  const UsersCode &users_code(PyCodeObject *code);

  ~State() {
    for (const auto &[key, user] : users) {
      Py_DECREF(key);
      Py_DECREF(reinterpret_cast<PyObject *>(user.code));
    }
    for (const auto *codes : {&ran, &called})
      for (PyCodeObject *code : *codes)
        Py_DECREF(reinterpret_cast<PyObject *>(code));
    for (PyObject *function : functions)
      Py_DECREF(function);
  }

  Ran code_that_ran() const { return {ran, called, calls}; }
  void start(PyObject *callable, const std::string &name);
  void code(PyCodeObject *code, PyObject *globals);
  void function(PyObject *function, bool library);
};

namespace {

bool has_variables(PyObject *function) {
  auto *f = reinterpret_cast<PyFunctionObject *>(function);
  return f->func_closure || f->func_defaults || f->func_kwdefaults;
}

} // namespace

/// The callable itself: what a functools.partial, a bound method or a callable object leads to.
void Recorder::State::start(PyObject *callable, const std::string &name) {
  if (PyMethod_Check(callable)) {
    walker.root({.name = "self", .object = PyMethod_GET_SELF(callable)});
    callable = PyMethod_GET_FUNCTION(callable);
  }
  if (PyFunction_Check(callable)) {
    if (functions.insert(callable).second)
      Py_INCREF(callable);
    walker.function(callable, name, /*weak=*/false);
  } else {
    walker.root({.name = "self", .object = callable});
  }
}

void Recorder::State::code(PyCodeObject *code, PyObject *globals) {
  seen.insert(code);
  ran.push_back(reinterpret_cast<PyCodeObject *>(Py_NewRef(reinterpret_cast<PyObject *>(code))));
  std::vector<PyObject *> names;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
    names.push_back(PyTuple_GET_ITEM(code->co_names, i));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_consts); ++i)
    if (PyObject *constant = PyTuple_GET_ITEM(code->co_consts, i); PyCode_Check(constant))
      made.insert(constant);
  if (is_library_globals(globals)) {
    if (reads_any_attribute(code))
      walker.every_name();
    if (const auto hooks = module_hooks_of(code); !hooks.empty())
      walker.globals(globals, code->co_filename, hooks);
    walker.names(std::move(names));
    return;
  }
  const CodeNames found = names_of(code);
  names.push_back(code->co_name); // `__call__`, `__getitem__` ... run without being named
  names.insert(names.end(), found.attributes.begin(), found.attributes.end());
  walker.names(std::move(names));
  if (found.any_attribute)
    walker.every_name();
  walker.globals(globals, code->co_filename, found.globals);
  for (PyObject *module : found.imports)
    walker.imported(module);
}

const Recorder::State::UsersCode &Recorder::State::users_code(PyCodeObject *code) {
  PyObject *key = reinterpret_cast<PyObject *>(code);
  const auto found = users.find(key);
  if (found != users.end())
    return found->second;
  const KeepError keep;
  const bool generated = is_generated(code);
  Owned original = original_code(code);
  Py_INCREF(key);
  return users
      .emplace(key, UsersCode{reinterpret_cast<PyCodeObject *>(original.release()), generated})
      .first->second;
}

void Recorder::State::function(PyObject *function, bool library) {
  if (library || !has_variables(function) || !functions.insert(function).second)
    return;
  Py_INCREF(function);
  auto *f = reinterpret_cast<PyFunctionObject *>(function);
  walker.function(function, utf8(f->func_qualname), /*weak=*/true);
}

Recorder::Recorder(PyObject *function, std::span<const Root> roots, bool watch_values)
    : state_(std::make_unique<State>()) {
  state_->watch_values = watch_values;
  for (const Root &root : roots)
    state_->walker.root(root);
  state_->start(function, "");
}

Recorder::~Recorder() = default;

void Recorder::enter(PyFrameObject *frame) {
  PyCodeObject *ran = PyFrame_GetCode(frame);
  PyObject *held = reinterpret_cast<PyObject *>(ran);
  // A loop's helper runs again and again.
  const bool again = held == state_->last && !ran->co_nfreevars;
  if (!again) {
    const State::UsersCode &user = state_->users_code(ran);
    PyCodeObject *code = user.code;
    PyObject *function = user.generated ? nullptr : function_of(frame);
    if (function)
      function = original_function(function);
    if (!state_->seen.contains(code)) {
      Owned globals(PyFrame_GetGlobals(frame));
      enter_code(code, globals.get(), function);
    } else if (function && has_variables(function) && !state_->functions.contains(function)) {
      Owned globals(PyFrame_GetGlobals(frame));
      enter_code(code, globals.get(), function);
    }
    state_->last = held;
  }
  Py_DECREF(held);
}

void Recorder::enter_code(PyCodeObject *code, PyObject *globals, PyObject *function) {
  const KeepError keep;
  State &s = *state_;
  // Cells of a function that the body makes are the body's own, unless it is reached otherwise.
  const bool made =
      s.made.contains(reinterpret_cast<PyObject *>(code)) && function && !s.walker.knows(function);
  if (!s.seen.contains(code))
    s.code(code, globals);
  if (function && !made)
    s.function(function, is_library_globals(globals));
}

void Recorder::begin_call() { state_->calls = true; }

void Recorder::enter_called(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  auto &called = state_->called;
  if (std::find(called.begin(), called.end(), code) == called.end())
    called.push_back(code);
  else
    Py_DECREF(reinterpret_cast<PyObject *>(code));
}

const std::string &Recorder::once() const { return state_->once; }

bool Recorder::reaches(PyObject *object) const { return state_->walker.knows(object); }

std::string Recorder::path_of(PyObject *tensor) {
  const Walker::Position *at = state_->walker.tensor(tensor);
  return at ? state_->walker.graph().path(at->container, at->slot) : std::string();
}

std::span<Rebound> Recorder::rebound() {
  State &s = *state_;
  s.changes = changes_of(s.walker);
  for (Change &change : s.changes) {
    // A list may grow, as by any value.
    if (!change.has_tensor || (change.slot < 0 && !change.key) || is_lifted(change.now.get()))
      continue;
    const Storer storer = storer_of(change, s.walker.graph(), s.code_that_ran());
    if (!storer.body)
      continue;
    change.rebound = static_cast<int>(s.rebound.size());
    s.rebound.push_back(
        {python::path_of(change, s.walker.graph()), storer.where, change.now.get(), std::nullopt});
  }
  return s.rebound;
}

void Recorder::put_back() {
  const Graph &graph = state_->walker.graph();
  for (const Change &change : state_->changes) {
    if (change.rebound < 0)
      continue;
    const Container &c = graph.containers[change.container];
    const Slot *slot = change.slot < 0 ? nullptr : &c.slots[change.slot];
    if (!write(c.place, change.key.get(), slot ? slot->index : -1, graph.objects[c.object].object,
               slot ? slot->value : nullptr))
      PyErr_Clear(); // something else has taken it away
  }
}

std::shared_ptr<Environment> Recorder::finish(std::span<PyObject *const> captured,
                                              std::vector<SideEffect> &side_effects) {
  State &s = *state_;
  Finish finish(s.walker, s.code_that_ran(), captured);
  auto environment = finish.run(s.watch_values, s.changes, s.rebound, side_effects);
  s.once = finish.once();
  return environment;
}

} // namespace tracehost::python
