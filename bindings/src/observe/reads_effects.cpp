#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "observe/reads.h"

#include <algorithm>
#include <array>
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
  case Effect::instance_of:
  case Effect::item: // keys are compared where they are looked up
  case Effect::store_item:
    return true;
  case Effect::elements:
    return name != "set" && name != "frozenset" && name != "reduce";
  default:
    return effect == Effect::nothing &&
           (name == "isinstance" || name == "type" || name == "callable" || name == "super");
  }
}

/// A callable whose code is observed where it runs.
bool is_python_code(PyObject *callable) {
  return callable && (PyFunction_Check(callable) || PyMethod_Check(callable));
}

/// Whether C code calls the callables that it is given, and does not only keep or compare them.
bool calls_its_arguments(Effect effect, const Called &called) {
  return effect == Effect::elements || called.name == "sorted" || called.name == "sort" ||
         called.name == "min" || called.name == "max";
}

bool is_getattr(PyObject *callable) {
  return PyCFunction_Check(callable) &&
         std::string_view(reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name) ==
             "getattr";
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

std::string Called::shown() const {
  std::string text(of.empty() || of == "builtins" ? "" : of);
  return text + (text.empty() ? "" : ".") + std::string(name) + "()";
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

/// What C code reads where it calls C code that it was given, as a `key=` or by map(): attrgetter,
/// `table.get`.
void Reads::use_callables(Effect effect, const Called &called, Arguments arguments) {
  for (PyObject *callable : arguments) {
    if (!callable)
      continue;
    PyObject *self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
    if (self && is_collection(self) && calls_its_arguments(effect, called))
      read_contents(std::array{self}, /*may_store=*/true);
    if (called.name == "reduce" && arguments.size() == 3 && is_getattr(callable) &&
        (PyList_Check(arguments[1]) || PyTuple_Check(arguments[1])))
      follow(arguments[2], arguments[1]);
    if (!is_getter(callable))
      continue;
    taker().getter = callable;
    for (PyObject *argument : arguments) {
      if (!argument || argument == callable)
        continue;
      paths_.whole(argument, false);
      for (PyObject *part : parts_of(argument, /*all=*/true))
        if (part != argument)
          use_getter(callable, part);
    }
  }
}

/// What a called node stores is stored again, and counts; what it reads does not.
void Reads::apply(Effect effect, const Called &called, Arguments arguments) {
  for (PyObject *argument : arguments)
    if (argument && !called_ && called.name != "get")
      check_use_of_type(argument);
  const bool adds_to_own = effect == Effect::adds && called.name == "append" &&
                           !arguments.empty() && arguments[0] && !paths_.knows(arguments[0]);
  if (!adds_to_own && !asks_of_class(effect, called.of, called.name))
    for (PyObject *argument : arguments)
      if (argument)
        identified(argument);
  if (!called_)
    use_callables(effect, called, arguments);
  note_call(effect, called, arguments);
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

void Reads::apply_read(Effect effect, const Called &called, Arguments arguments) {
  PyObject *first = !arguments.empty() ? arguments[0] : nullptr;
  PyObject *second = arguments.size() > 1 ? arguments[1] : nullptr;
  const Arguments others = first ? arguments.subspan(1) : arguments;
  PyObject *name = second && PyUnicode_Check(second) ? second : nullptr;
  const bool deep =
      effect == Effect::elements && !called.method && looks_into(called.name, arguments);
  switch (effect) {
  case Effect::shows:
    prints_ = frame_;
    prints_at_ = frame_->before;
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
    if (first && called.name == "dir")
      paths_.every_name(Py_TYPE(first));
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
    for (PyObject *argument : arguments)
      if (argument)
        paths_.whole(argument, deep || (called.method && argument != first));
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
  case Effect::process_state:
    ask_again(called, arguments);
    break;
  case Effect::context: // set() and reset() as well: what it was before
    if (first)
      paths_.ask(first, Owned(PyUnicode_InternFromString("get")).get(), Asked::context);
    break;
  case Effect::threads:
    paths_.serves_once("calls " + called.shown() + kOtherThread);
    break;
  case Effect::outside:
    note_unknown(called);
    read_contents(arguments, /*may_store=*/false);
    break;
  case Effect::unknown:
    if ((called.callable && arguments.empty()) || may_differ(arguments))
      note_unknown(called);
    read_contents(arguments, /*may_store=*/true);
    break;
  case Effect::contents:
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
  } else if (!called.method && arguments.empty() && called.callable) {
    paths_.ask(called.callable, nullptr, Asked::function);
  } else {
    read_contents(arguments, /*may_store=*/false);
  }
}

/// One that is added to it pushes another one out.
static bool is_full_deque(PyObject *container) {
  if (!is_deque(container))
    return false;
  const Owned most(PyObject_GetAttrString(container, "maxlen"));
  const Py_ssize_t count = most && PyLong_Check(most.get()) ? PyLong_AsSsize_t(most.get()) : -1;
  PyErr_Clear();
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
  change(container, effect != Effect::adds || is_full_deque(container));
  const bool looks = !called_ && (effect != Effect::adds || PyAnySet_Check(container));
  for (PyObject *other : others)
    paths_.whole(other, looks);
  if (looks)
    taker();
}

/// Whether a later call may find something else in what was there before the body ran.
bool Reads::may_differ(Arguments arguments) const {
  return std::any_of(arguments.begin(), arguments.end(), [this](PyObject *argument) {
    if (!argument || PyTuple_Check(argument) || is_tensor(argument) || !paths_.knows(argument))
      return false;
    return is_collection(argument) || is_opaque(argument) ||
           (has_user_attributes(Py_TYPE(argument)) && !is_fixed(Py_TYPE(argument)));
  });
}

void Reads::note_unknown(const Called &called) {
  if (printing())
    return;
  const Origin origin = origin_of(frame_->code);
  UnknownCall call{called.shown(), user_line(),
                   origin == Origin::user || origin == Origin::tracehost};
  const bool seen = std::any_of(unknown_.begin(), unknown_.end(), [&](const UnknownCall &other) {
    return other.what == call.what && other.where.line == call.where.line &&
           other.where.file == call.where.file;
  });
  if (!seen)
    unknown_.push_back(std::move(call));
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

/// attrgetter("config.scale"), for each part in turn.
void Reads::use_getter(PyObject *getter, PyObject *object) {
  const Owned made(PyObject_CallMethod(getter, "__reduce__", nullptr)); // the class, the names
  PyErr_Clear();
  PyObject *names = made && PyTuple_Check(made.get()) && PyTuple_GET_SIZE(made.get()) > 1
                        ? PyTuple_GET_ITEM(made.get(), 1)
                        : nullptr;
  for (Py_ssize_t i = 0; names && PyTuple_Check(names) && i < PyTuple_GET_SIZE(names); ++i) {
    PyObject *name = PyTuple_GET_ITEM(names, i);
    if (!PyUnicode_Check(name) ||
        std::string_view(Py_TYPE(getter)->tp_name) != "operator.attrgetter") {
      load_item(object, name);
      continue;
    }
    const Owned dot(PyUnicode_FromString("."));
    const Owned parts(PyUnicode_Split(name, dot.get(), -1));
    if (parts)
      follow(object, parts.get());
  }
}

/// object.a.b of the names "a" and "b".
void Reads::follow(PyObject *object, PyObject *names) {
  for (Py_ssize_t i = 0; object && i < PySequence_Fast_GET_SIZE(names); ++i) {
    if (!PyUnicode_Check(PySequence_Fast_GET_ITEM(names, i)))
      return;
    const Paths::Position found = paths_.attribute(object, PySequence_Fast_GET_ITEM(names, i));
    paths_.read(found);
    object = found.slot >= 0 ? paths_.graph().containers[found.container].slots[found.slot].value
                             : nullptr;
  }
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
      if (taker.getter)
        use_getter(taker.getter, result);
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
