#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "observe/reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <string>

/// Reads: what calls of C code read and store of their arguments, by the table of c_functions.h.

namespace tracehost::python {

namespace {

/// Follows what the body calls.
constexpr const char *kOtherThread = ", and what another thread does is not observed";

/// Whether the answer is the same for another object of the class that holds the same.
bool asks_of_class(Effect effect, std::string_view of, std::string_view name) {
  if (of == "_tracehost" || of.starts_with("tracehost")) // calls of converted code
    return true;
  switch (effect) {
  case Effect::shows:
  case Effect::length:
  case Effect::attribute:
  case Effect::attributes:
  case Effect::store_attribute:
  case Effect::classes:
  case Effect::instance_of:
  case Effect::item: // keys are compared where they are looked up
  case Effect::store_item:
    return true;
  case Effect::elements:
    return name != "set" && name != "frozenset" && name != "reduce";
  default:
    return effect == Effect::nothing && (name == "callable" || name == "super");
  }
}

/// A callable whose code is observed where it runs.
bool is_python_code(PyObject *callable) {
  return callable && (PyFunction_Check(callable) || PyMethod_Check(callable));
}

/// Whether C code that takes the elements of an iterable looks into these, too: it hashes, compares
/// or adds them, asks for their truth, or calls C code with them.
bool looks_into(std::string_view name, std::span<PyObject *const> arguments) {
  const auto is_one_of = [name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_one_of({"sum", "any", "all", "set", "frozenset", "starmap"}))
    return true;
  if (is_one_of({"dict", "OrderedDict", "defaultdict"})) // pairs
    return !arguments.empty() && arguments.back() && !PyDict_Check(arguments.back());
  return is_one_of({"map", "filter", "filterfalse", "takewhile", "dropwhile", "reduce",
                    "accumulate", "groupby"}) &&
         std::none_of(arguments.begin(), arguments.end(), is_python_code);
}

} // namespace

std::string Called::path() const {
  std::string text(of.empty() || of == "builtins" ? "" : of);
  return text + (text.empty() ? "" : ".") + std::string(name);
}

/// What is registered with an abstract base class is known to C code alone: the question is asked
/// again. Libraries' own classes are taken to be registered once and for all.
void Reads::ask_abstract_class(PyObject *type, PyObject *of) {
  if (!PyType_Check(type) || !PyType_Check(of) || is_ours(frame_->globals))
    return;
  if (!is_library(origin_of_type(reinterpret_cast<PyTypeObject *>(type))) ||
      !is_library(origin_of_type(reinterpret_cast<PyTypeObject *>(of))))
    paths_.ask(of, type, Asked::subclass);
}

/// Calls that ask which object a tensor is.
void Reads::check_identities(const Called &called, Arguments arguments) {
  const bool compares = called.of == "_operator" && called.name.starts_with("is_");
  if (compares && arguments.size() == 2 && arguments[0] && arguments[1])
    check_identity(arguments[0], arguments[1]);
  const bool asks = called.of == "builtins" && (called.name == "id" || called.name == "hash");
  if (asks && arguments.size() == 1 && arguments[0])
    hashed(arguments[0]);
  if (called.of != "builtins" || !called.name.ends_with("set") || arguments.size() != 1 ||
      !arguments[0] || !(PyList_Check(arguments[0]) || PyTuple_Check(arguments[0])))
    return;
  for (Py_ssize_t i = 0; i < Py_SIZE(arguments[0]); ++i)
    hashed(PySequence_Fast_ITEMS(arguments[0])[i]);
}

/// What a called node stores is stored again, and counts; what it reads does not.
void Reads::apply(Rule rule, const Called &called, Arguments arguments) {
  const Effect effect = rule.effect;
  for (PyObject *argument : arguments)
    if (argument && !called_ && called.name != "get")
      check_use_of_type(argument);
  if (!called_)
    check_identities(called, arguments);
  const bool adds_to_own = effect == Effect::adds && called.name == "append" &&
                           !arguments.empty() && arguments[0] && !paths_.knows(arguments[0]);
  if (!adds_to_own && !asks_of_class(effect, called.of, called.name))
    for (PyObject *argument : arguments)
      if (argument)
        identified(argument);
  if (!called_)
    use_callables(effect, called, arguments);
  note_call(rule, called, arguments);
  if (sides_.is_refused())
    return;
  if (apply_store(effect, called, arguments) || called_)
    return;
  if (!arguments.empty() && arguments[0] && is_tensor(arguments[0]))
    paths_.read_metadata(arguments[0]);
  apply_read(effect, called, arguments);
}

/// False: it stores nothing that is known.
bool Reads::apply_store(Effect effect, const Called &called, Arguments arguments) {
  PyObject *first = !arguments.empty() ? arguments[0] : nullptr;
  PyObject *second = arguments.size() > 1 ? arguments[1] : nullptr;
  PyObject *third = arguments.size() > 2 ? arguments[2] : nullptr;
  PyObject *name = second && PyUnicode_Check(second) ? second : nullptr;
  switch (effect) {
  case Effect::store_attribute:
    if (name && called.method && has_user_attributes(Py_TYPE(first)))
      note_store(paths_.stored_attribute(first, name), third);
    else if (name)
      store_attribute(first, name, third);
    return true;
  case Effect::adds:
  case Effect::removes:
  case Effect::moves:
    if (first)
      change_by(effect, called.name, first, arguments.subspan(1));
    return true;
  case Effect::store_item:
    if (second && called.name == "setdefault" && !called_)
      contains(second, first);
    if (second)
      store_item(first, second, third);
    return true;
  default:
    return false;
  }
}

/// print(): its texts are for people, unless the body keeps them. `arguments`: with `file`.
void Reads::note_print(Arguments arguments) {
  PyObject *file = nullptr;
  for (PyObject *argument : arguments)
    if (argument && PyObject_TypeCheck(argument, known().string_io))
      file = argument;
  if (paths_.keeps_print(file))
    return;
  prints_ = frame_;
  prints_at_ = frame_->before;
}

void Reads::apply_read(Effect effect, const Called &called, Arguments arguments) {
  PyObject *first = !arguments.empty() ? arguments[0] : nullptr;
  PyObject *second = arguments.size() > 1 ? arguments[1] : nullptr;
  const Arguments others = first ? arguments.subspan(1) : arguments;
  PyObject *name = second && PyUnicode_Check(second) ? second : nullptr;
  const bool deep =
      effect == Effect::elements && !called.method && looks_into(called.name, arguments);
  switch (effect) {
  case Effect::shows:
    note_print(arguments);
    break;
  case Effect::length:
    if (first)
      truth(first);
    break;
  case Effect::attribute:
    if (name && called.method)
      paths_.read(paths_.attribute(first, name));
    else if (name)
      load_attribute(first, name);
    break;
  case Effect::attributes:
    if (first && (called.name == "dir" || called.name == "__dir__"))
      paths_.every_name(PyType_Check(first) ? reinterpret_cast<PyTypeObject *>(first)
                                            : Py_TYPE(first));
    if (first && called.name == "vars") {
      paths_.read(paths_.attribute(first, known().dict));
      note_attributes(first);
    }
    if (first)
      paths_.every_attribute(first);
    break;
  case Effect::item:
    if (second && PyList_Check(first))
      load_item(first, second);
    else if (second)
      contains(second, first);
    for (PyObject *other : others)
      paths_.whole(other, true);
    break;
  case Effect::elements:
    for (PyObject *argument : arguments) {
      if (!argument)
        continue;
      asks_class(argument, {"__iter__"});
      paths_.whole(argument, deep || (called.method && argument != first));
    }
    if (deep)
      taker();
    else if (first)
      takes_from(first);
    break;
  case Effect::pieces:
    for (PyObject *other : others) {
      paths_.every_attribute(other);
      paths_.whole(other, true);
    }
    break;
  case Effect::pickled:
    for (PyObject *argument : arguments)
      if (argument)
        paths_.everything(argument);
    break;
  case Effect::classes:
    for (PyObject *argument : arguments)
      if (argument)
        paths_.class_of(argument);
    if (first && called.name == "callable")
      paths_.class_attribute(Py_TYPE(first), "__call__");
    break;
  case Effect::globals:
    if (!is_ours(frame_->globals))
      paths_.globals(frame_->globals, frame_->code->co_filename);
    break;
  case Effect::instance_of:
    if (second)
      ask_abstract_class(reinterpret_cast<PyObject *>(Py_TYPE(second)), first);
    break;
  case Effect::subclass_of:
    if (second)
      ask_abstract_class(second, first);
    break;
  case Effect::subclasses:
    paths_.unguarded(std::string("the subclasses of ") +
                     reinterpret_cast<PyTypeObject *>(first)->tp_name);
    break;
  case Effect::setting:
    if (!asks_for_itself())
      break;
    [[fallthrough]];
  case Effect::process_state:
    ask_again(called, arguments);
    break;
  case Effect::context: // set() and reset() as well: what it was before
    if (first)
      paths_.ask(first, Owned(PyUnicode_InternFromString("get")).get(), Asked::context);
    break;
  case Effect::device:
    note_device(called);
    break;
  case Effect::threads:
    paths_.serves_once("calls " + called.shown() + kOtherThread);
    break;
  case Effect::changing:
    if (!called.method || paths_.knows(first) || Py_IS_TYPE(first, &PyContext_Type))
      paths_.unguarded(called.shown());
    break;
  case Effect::outside:
    note_outside(called);
    read_contents(arguments, /*may_store=*/false);
    break;
  case Effect::unknown:
    apply_unknown(called, arguments);
    break;
  case Effect::contents:
    if (called.of == "builtins" && (called.name == "str" || called.name == "repr" ||
                                    called.name == "ascii" || called.name == "format"))
      for (PyObject *argument : arguments)
        shown(argument);
    read_contents(arguments, /*may_store=*/false);
    break;
  case Effect::changes:
    read_contents(arguments, /*may_store=*/true);
    break;
  default:
    break;
  }
}

/// `torch.get_num_threads()`, `generator.initial_seed()`.
void Reads::ask_again(const Called &called, Arguments arguments) {
  if (called.method && arguments.size() == 1) {
    const Owned text(PyUnicode_InternFromString(std::string(called.name).c_str()));
    paths_.ask(arguments[0], text.get(), Asked::method_of);
  } else if (!called.method && called.callable && !named_) {
    Owned values(arguments.empty() ? nullptr
                                   : PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
    for (std::size_t i = 0; values && i < arguments.size(); ++i)
      PyTuple_SET_ITEM(values.get(), i, Py_XNewRef(arguments[i]));
    paths_.ask(called.callable, values.get(), Asked::function);
  } else {
    read_contents(arguments, /*may_store=*/false);
  }
}

/// Two plain values.
static bool is_equal(PyObject *a, PyObject *b) {
  if (!a || !b || Py_TYPE(a) != Py_TYPE(b) || !is_plain(Py_TYPE(a), a))
    return false;
  const int same = PyObject_RichCompareBool(a, b, Py_EQ);
  forget_error();
  return same == 1;
}

/// One that is added to it pushes another one out.
static bool is_full_deque(PyObject *container) {
  if (!is_deque(container))
    return false;
  const Owned most(PyObject_GetAttrString(container, "maxlen"));
  const Py_ssize_t count = most && PyLong_Check(most.get()) ? PyLong_AsSsize_t(most.get()) : -1;
  forget_error();
  return count >= 0 && Py_SIZE(container) >= count;
}

/// A method of a container that adds elements, moves or removes them. Whether that changes anything
/// depends on what is there: so it is read, too.
void Reads::change_by(Effect effect, std::string_view name, PyObject *container, Arguments others) {
  PyObject *first = others.empty() ? nullptr : others[0];
  if (!called_) {
    if (effect == Effect::removes)
      read_removed(name, container, first);
    else if (PyAnySet_CheckExact(container) && name == "add" && first)
      contains(first, container);
    else if (effect == Effect::moves || PyAnySet_CheckExact(container))
      paths_.whole(container, true);
    if (is_deque(container) && paths_.knows(container))
      paths_.ask(container, Owned(PyUnicode_InternFromString("maxlen")).get(), Asked::attribute_of);
  }
  if (effect == Effect::adds && PyDict_Check(container))
    return update(container, others);
  change(container, effect != Effect::adds || is_full_deque(container));
  const bool looks = !called_ && (effect != Effect::adds || PyAnySet_Check(container));
  for (PyObject *other : others)
    paths_.whole(other, looks);
  if (looks)
    taker();
}

/// `table.update(other, key=value)`: stores to each key, also where it holds the value already. Of
/// keywords only the values are known.
void Reads::update(PyObject *dict, Arguments others) {
  for (PyObject *other : others)
    paths_.whole(other, false);
  change(dict, false);
  const int c = paths_.before_change(dict);
  for (PyObject *other : others) {
    if (c < 0 || !other)
      continue;
    PyObject *key, *value;
    if (PyDict_Check(other) && !named_) {
      for (Py_ssize_t at = 0; PyDict_Next(other, &at, &key, &value);)
        note_store(paths_.item(dict, key), value);
      continue;
    }
    const std::deque<Container> &containers = paths_.graph().containers;
    for (std::size_t s = 0; s < containers[c].slots.size(); ++s)
      if (containers[c].slots[s].value == other || is_equal(containers[c].slots[s].value, other))
        note_store({c, static_cast<int>(s)}, other);
  }
}

/// What `pop`, `remove` and their like take away.
void Reads::read_removed(std::string_view name, PyObject *container, PyObject *key) {
  const Owned last(PyLong_FromLong(-1));
  if (PyList_Check(container) && name != "remove")
    load_item(container, key ? key : last.get());
  else if (key)
    contains(key, container);
  else
    paths_.whole(container, false);
}

/// Notes that the C code which is called looks into what code of Python gives it during the call:
/// a generator's elements, the results of a `key=`.
Reads::Taker &Reads::taker() {
  for (Taker &t : takers_)
    if (t.frame == frame_ && t.at == frame_->before)
      return t;
  std::erase_if(takers_, [this](const Taker &t) { return t.frame == frame_; });
  return takers_.emplace_back(Taker{frame_, frame_->before, nullptr});
}

/// Those of itertools take apart what code of Python gives them: `chain.from_iterable(rows(x))`.
void Reads::takes_from(PyObject *iterator) {
  if (std::string_view(Py_TYPE(iterator)->tp_name).starts_with("itertools."))
    taker();
}

/// A frame that returns or yields.
void Reads::give(PyObject *result) {
  const Frame *caller = caller_of(*frame_);
  for (const Taker &taker : takers_)
    if (taker.frame == caller && caller->before >= taker.at &&
        caller->before - taker.at <= kCallAfterPrecall) {
      paths_.whole(result, true);
      if (taker.applied)
        call(taker.applied, std::array{result});
    }
}

/// Reads everything in the containers among the arguments.
void Reads::read_contents(Arguments arguments, bool may_store) {
  taker();
  for (PyObject *argument : arguments) {
    if (!argument)
      continue;
    if (is_tensor(argument))
      paths_.read_metadata(argument);
    if (const int c = paths_.whole(argument, true); c >= 0 && may_store)
      stores_.note_unknown(c);
  }
}

} // namespace tracehost::python
