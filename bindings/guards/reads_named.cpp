#include "guards/gil.h"
#include "guards/kinds.h"
#include "guards/known.h"
#include "guards/reads.h"
#include "origin.h"

#include <algorithm>
#include <iterator>

/// Reads: what functions of C code and methods of containers read and store, by their names.

namespace tracehost::python {

namespace {

using Names = std::span<const std::string_view>;

bool one_of(std::string_view name, Names names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Builtins that ask an argument for its identity or class, or keep it, and read no more.
constexpr std::string_view kReadsNothing[] = {
    "isinstance",  "issubclass",   "id",  "callable", "type", "super", "object", "property",
    "classmethod", "staticmethod", "ref", "proxy",    "cell", "slice", "range",  "print"};

/// Those that read how long it is.
constexpr std::string_view kReadsLength[] = {"len", "bool"};

/// Those that read its elements, and not what is in these.
constexpr std::string_view kReadsElements[] = {
    "iter", "reversed", "aiter", "enumerate",   "zip",     "map",  "filter",
    "list", "tuple",    "set",   "frozenset",   "dict",    "sum",  "any",
    "all",  "next",     "deque", "OrderedDict", "Counter", "chain"};

/// Methods of containers that read one element.
constexpr std::string_view kReadsOne[] = {"get", "__getitem__", "__contains__"};

/// Methods of containers that store one element.
constexpr std::string_view kStoresOne[] = {"__setitem__", "setdefault"};

/// Methods of containers that add elements.
constexpr std::string_view kAdds[] = {"append", "extend", "update", "add", "__ior__", "__iadd__"};

/// Methods of containers that move or remove elements.
constexpr std::string_view kMoves[] = {"appendleft",
                                       "popleft",
                                       "extendleft",
                                       "rotate",
                                       "insert",
                                       "remove",
                                       "pop",
                                       "popitem",
                                       "clear",
                                       "discard",
                                       "sort",
                                       "reverse",
                                       "move_to_end",
                                       "__delitem__",
                                       "__imul__",
                                       "__isub__",
                                       "__iand__",
                                       "__ixor__",
                                       "difference_update",
                                       "intersection_update",
                                       "symmetric_difference_update"};

} // namespace

/// What is registered with an abstract base class is known to C code alone: the question is asked
/// again. Libraries' own classes are taken to be registered once and for all.
void Reads::ask_abstract_class(PyObject *type, PyObject *of) {
  if (!PyType_Check(type) || !PyType_Check(of) || is_ours(frame_->globals))
    return;
  if (!is_library(origin_of_type(reinterpret_cast<PyTypeObject *>(type))) ||
      !is_library(origin_of_type(reinterpret_cast<PyTypeObject *>(of))))
    paths_.ask(of, type, Asked::subclass);
}

/// A function or type of C code, by its name.
void Reads::call_named(std::string_view name, Arguments arguments) {
  if (arguments.empty()) {
    if (name == "globals" && !called_ && !is_ours(frame_->globals))
      paths_.globals(frame_->globals, frame_->code->co_filename);
    return;
  }
  PyObject *first = arguments[0];
  PyObject *second = arguments.size() > 1 ? arguments[1] : nullptr;
  if (name == "setattr" || name == "delattr") {
    if (second && PyUnicode_Check(second))
      store_attribute(first, second);
    return;
  }
  if (called_)
    return;
  for (PyObject *getter : arguments) // as a key, or given to map
    if (getter && is_getter(getter))
      for (PyObject *argument : arguments)
        if (argument != getter && (PyList_Check(argument) || PyTuple_Check(argument)))
          for (Py_ssize_t i = 0; i < Py_SIZE(argument); ++i) {
            paths_.whole(argument, false);
            use_getter(getter, PySequence_Fast_ITEMS(argument)[i]);
          }
  if (is_tensor(first))
    paths_.read_metadata(first);
  if (name == "_abc_instancecheck" && second)
    return ask_abstract_class(reinterpret_cast<PyObject *>(Py_TYPE(second)), first);
  if (name == "_abc_subclasscheck" && second)
    return ask_abstract_class(second, first);
  if (name == "print")
    prints_ = frame_;
  if (one_of(name, kReadsNothing))
    return;
  if (name == "getattr" || name == "hasattr") {
    if (second && PyUnicode_Check(second))
      load_attribute(first, second);
  } else if (name == "vars" || name == "dir") {
    paths_.every_attribute(first);
  } else if (one_of(name, kReadsLength)) {
    truth(first);
  } else if (one_of(name, kReadsElements)) {
    for (PyObject *argument : arguments)
      paths_.whole(argument, false);
  } else {
    call_unknown(arguments, true);
  }
}

/// A method of a C type; the first argument is `self`. False: it is not one of those known.
bool Reads::call_method(std::string_view name, Arguments arguments) {
  if (arguments.empty())
    return true;
  PyObject *self = arguments[0];
  PyObject *first = arguments.size() > 1 ? arguments[1] : nullptr;
  if (name == "__setattr__" || name == "__delattr__") {
    if (first && PyUnicode_Check(first))
      stores_.note(paths_.stored_attribute(self, first), called_);
    return true;
  }
  if (PyDict_Check(self) || PyList_Check(self) || PyAnySet_CheckExact(self) ||
      PyObject_TypeCheck(self, known().deque)) {
    if (const bool moves = one_of(name, kMoves); moves || one_of(name, kAdds)) {
      if (name == "pop" && !called_)
        pop(self, first);
      change(self, moves);
      for (PyObject *argument : arguments.subspan(1))
        paths_.whole(argument, false);
      return true;
    }
    if (first && one_of(name, kStoresOne)) {
      if (name == "setdefault" && !called_)
        contains(first, self);
      store_item(self, first);
      return true;
    }
    if (called_)
      return true;
    if (first && one_of(name, kReadsOne) && !PyList_Check(self))
      contains(first, self);
    else if (first && one_of(name, kReadsOne))
      load_item(self, first);
    else
      paths_.whole(self, name != "items" && name != "keys" && name != "values" && name != "copy" &&
                             name != "__iter__" && name != "__len__");
    for (PyObject *argument : arguments.subspan(1))
      paths_.whole(argument, true);
    return true;
  }
  if (called_)
    return true;
  if (name == "__subclasses__" && PyType_Check(self)) {
    paths_.unguarded(std::string("the subclasses of ") +
                     reinterpret_cast<PyTypeObject *>(self)->tp_name);
    return true;
  }
  if (name == "__getattribute__") {
    if (first && PyUnicode_Check(first))
      paths_.read(paths_.attribute(self, first));
    return true;
  }
  if (name == "format" && PyUnicode_Check(self)) { // "{0.name}"
    for (PyObject *argument : arguments.subspan(1)) {
      paths_.every_attribute(argument);
      paths_.whole(argument, true);
    }
    return true;
  }
  if (name == "__reduce_ex__" || name == "__reduce__" || name == "__getstate__" ||
      name == "__dir__") {
    paths_.every_attribute(self);
    return true;
  }
  return false;
}

/// What `pop` takes is read, too.
void Reads::pop(PyObject *container, PyObject *key) {
  if (PyList_Check(container)) {
    const Owned last(PyLong_FromLong(-1));
    load_item(container, key ? key : last.get());
  } else if (key) {
    contains(key, container);
  } else {
    paths_.whole(container, false);
  }
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

/// Whatever is in the containers among the arguments.
void Reads::call_unknown(Arguments arguments, bool may_store) {
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
