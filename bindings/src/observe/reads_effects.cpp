#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "observe/reads.h"

#include <algorithm>
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

/// operator.attrgetter and its like, given as a key or to map().
void Reads::use_getters(Arguments arguments) {
  for (PyObject *getter : arguments)
    if (getter && is_getter(getter))
      for (PyObject *argument : arguments)
        if (argument != getter && (PyList_Check(argument) || PyTuple_Check(argument)))
          for (Py_ssize_t i = 0; i < Py_SIZE(argument); ++i) {
            paths_.whole(argument, false);
            use_getter(getter, PySequence_Fast_ITEMS(argument)[i]);
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
  if (apply_store(effect, called, arguments) || called_)
    return;
  use_getters(arguments);
  if (!arguments.empty() && arguments[0] && is_tensor(arguments[0]))
    paths_.read_metadata(arguments[0]);
  apply_read(effect, called, arguments);
}

/// False: it stores nothing that is known.
bool Reads::apply_store(Effect effect, const Called &called, Arguments arguments) {
  PyObject *first = !arguments.empty() ? arguments[0] : nullptr;
  PyObject *second = arguments.size() > 1 ? arguments[1] : nullptr;
  PyObject *name = second && PyUnicode_Check(second) ? second : nullptr;
  switch (effect) {
  case Effect::store_attribute:
    if (name && called.method)
      stores_.note(paths_.stored_attribute(first, name), called_);
    else if (name)
      store_attribute(first, name);
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
      store_item(first, second);
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
        paths_.whole(argument, called.method && argument != first);
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
  }
  change(container, effect != Effect::adds || is_full_deque(container));
  for (PyObject *other : others)
    paths_.whole(other, false);
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
    PyObject *at = object;
    for (Py_ssize_t p = 0; parts && at && p < PyList_GET_SIZE(parts.get()); ++p) {
      const Paths::Position found = paths_.attribute(at, PyList_GET_ITEM(parts.get(), p));
      paths_.read(found);
      at = found.slot >= 0 ? paths_.graph().containers[found.container].slots[found.slot].value
                           : nullptr;
    }
  }
}

/// Reads everything in the containers among the arguments.
void Reads::read_contents(Arguments arguments, bool may_store) {
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
