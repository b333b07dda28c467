#include "guards/gil.h"
#include "guards/kinds.h"
#include "guards/known.h"
#include "guards/reads.h"

#include <algorithm>
#include <iterator>
#include <vector>

/// Reads: what a call reads. Python code is observed while it runs; what C code reads of its
/// arguments is said here.

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

/// Functions and methods of C code that are called with nothing, and read the state of the process:
/// a later call asks them again.
constexpr std::string_view kAskedAgain[] = {"get_num_threads",
                                            "get_num_interop_threads",
                                            "getpid",
                                            "getppid",
                                            "getcwd",
                                            "getrecursionlimit",
                                            "get_ident",
                                            "initial_seed",
                                            "getdefaultencoding",
                                            "cpu_count",
                                            "device_count",
                                            "_cuda_getDevice",
                                            "_cuda_getDeviceCount",
                                            "locked",
                                            "is_set"};

std::vector<PyObject *> with_self(PyObject *self, std::span<PyObject *const> arguments) {
  std::vector<PyObject *> all{self};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

bool is_of_torch(PyObject *module) {
  return module && PyUnicode_Check(module) && std::string_view(utf8(module)).starts_with("torch");
}

/// What a C base class does by itself: object.__setattr__, BaseException.__setattr__.
bool is_slot_of_base(PyObject *found, std::string_view special) {
  return Py_IS_TYPE(found, &PyWrapperDescr_Type) && utf8(PyDescr_NAME(found)) == special;
}

bool is_getter(PyObject *callable) {
  const std::string_view name = Py_TYPE(callable)->tp_name;
  return name == "operator.attrgetter" || name == "operator.itemgetter";
}

/// A method that a C type gives an object: `super().__setattr__`.
bool is_slot_wrapper(PyObject *callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "method-wrapper";
}

} // namespace

/// The stack: two words for what is called, its arguments, and the names of the last of these.
void Reads::calls(int names) {
  const int count = instruction_->argument;
  PyObject *const *arguments = top_ - names - count;
  PyObject *first = arguments[-2], *second = arguments[-1];
  PyObject *callable = kCallableFirst ? first : first ? first : second;
  const bool bound = kCallableFirst ? second != nullptr : first != nullptr;
  if (bound)
    call(callable, {arguments - 1, static_cast<std::size_t>(count + 1)});
  else
    call(callable, {arguments, static_cast<std::size_t>(count)});
}

void Reads::calls_unpacked() {
  const int named = instruction_->argument & 1;
  PyObject *positional = operand(1 + named);
  PyObject *callable = kCallableFirst ? operand(3 + named) : operand(2 + named);
  paths_.whole(positional, false);
  if (named)
    paths_.whole(operand(1), false);
  std::vector<PyObject *> arguments;
  if (PyTuple_Check(positional) || PyList_Check(positional))
    arguments.assign(PySequence_Fast_ITEMS(positional),
                     PySequence_Fast_ITEMS(positional) + Py_SIZE(positional));
  if (named && PyDict_Check(operand(1))) {
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(operand(1), &at, &key, &value);)
      arguments.push_back(value);
  }
  call(callable, arguments);
}

void Reads::call(PyObject *callable, Arguments arguments) {
  PyTypeObject *type = Py_TYPE(callable);
  if (PyFunction_Check(callable))
    return;
  if (PyMethod_Check(callable)) {
    paths_.callee(callable);
    return call(PyMethod_GET_FUNCTION(callable), with_self(PyMethod_GET_SELF(callable), arguments));
  }
  if (type == known().partial) {
    paths_.callee(callable);
    const Owned function(PyObject_GetAttrString(callable, "func"));
    const Owned bound(PyObject_GetAttrString(callable, "args"));
    PyErr_Clear();
    if (bound && PyTuple_Check(bound.get()))
      call(function.get(),
           {PySequence_Fast_ITEMS(bound.get()), static_cast<std::size_t>(Py_SIZE(bound.get()))});
    return function ? call(function.get(), arguments) : void();
  }
  if (PyCFunction_Check(callable)) {
    auto *function = reinterpret_cast<PyCFunctionObject *>(callable);
    PyObject *self = PyCFunction_GET_SELF(callable);
    if (arguments.empty() && one_of(function->m_ml->ml_name, kAskedAgain))
      return ask_again(callable, self);
    if (self && !PyModule_Check(self) && paths_.knows(callable))
      return call_kept(callable, self, arguments);
    if (!self || PyModule_Check(self)) {
      if (is_of_torch(function->m_module))
        return call_unknown(arguments, /*may_store=*/false);
      return call_named(function->m_ml->ml_name, arguments);
    }
    if (!call_method(function->m_ml->ml_name, with_self(self, arguments)))
      call_unknown(arguments, !is_tensor(self));
    return;
  }
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type)) {
    if (arguments.size() == 1 && !called_ &&
        one_of(utf8(reinterpret_cast<PyDescrObject *>(callable)->d_name), kAskedAgain))
      return paths_.ask(arguments[0], reinterpret_cast<PyDescrObject *>(callable)->d_name,
                        Asked::method_of);
    if (!call_method(utf8(reinterpret_cast<PyDescrObject *>(callable)->d_name), arguments))
      call_unknown(arguments, arguments.empty() || !is_tensor(arguments[0]));
    return;
  }
  if (is_slot_wrapper(callable)) {
    const Owned self(PyObject_GetAttrString(callable, "__self__"));
    const Owned name(PyObject_GetAttrString(callable, "__name__"));
    PyErr_Clear();
    if (self && paths_.knows(callable) && is_opaque(self.get()) && !is_collection(self.get()))
      paths_.unguarded(std::string("a method of a ") + Py_TYPE(self.get())->tp_name);
    if (self && name && !call_method(utf8(name.get()), with_self(self.get(), arguments)))
      call_unknown(arguments, true);
    return;
  }
  if (PyType_Check(callable)) {
    auto *of = reinterpret_cast<PyTypeObject *>(callable);
    if (!(of->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_library_type(of)) {
      const std::string_view name = of->tp_name;
      return call_named(name.substr(name.rfind('.') + 1), arguments);
    }
    for (const char *asked : {"__new__", "__init__"}) {
      const Owned text(PyUnicode_InternFromString(asked));
      paths_.class_attribute(of, text.get());
    }
    return;
  }
  if (type == known().lru_cache)
    return call_cached(callable, arguments);
  if (PyWeakref_CheckRefExact(callable))
    return paths_.read(paths_.referent_of(callable));
  if (is_getter(callable)) {
    for (PyObject *argument : arguments)
      use_getter(callable, argument);
    return;
  }
  const Owned text(PyUnicode_InternFromString("__call__"));
  paths_.class_attribute(type, text.get());
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
    call_unknown(arguments, true);
}

/// `torch.get_num_threads()`, `generator.initial_seed()`.
void Reads::ask_again(PyObject *callable, PyObject *self) {
  if (called_)
    return;
  if (!self || PyModule_Check(self))
    return paths_.ask(callable, nullptr, Asked::function);
  const Owned name(
      PyUnicode_InternFromString(reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name));
  paths_.ask(self, name.get(), Asked::method_of);
}

/// A method that was kept with its object: `draw = rng.random`. The object has no path.
void Reads::call_kept(PyObject *callable, PyObject *self, Arguments arguments) {
  if (!called_ && is_opaque(self) && !is_collection(self) && !is_tensor(self))
    paths_.unguarded(std::string(reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name) +
                     "() of a " + Py_TYPE(self)->tp_name);
  call_unknown(arguments, true);
}

/// A function with lru_cache. A result that it has is an entry of its dict. One that it has not
/// becomes an entry: the function is then seen running.
void Reads::call_cached(PyObject *callable, Arguments arguments) {
  PyObject *cache = paths_.inner(callable);
  if (!cache)
    return;
  const bool alone = arguments.size() == 1 &&
                     (PyLong_CheckExact(arguments[0]) || PyUnicode_CheckExact(arguments[0]));
  Owned key(alone ? Py_NewRef(arguments[0])
                  : PyTuple_New(static_cast<Py_ssize_t>(arguments.size())));
  for (std::size_t i = 0; !alone && key && i < arguments.size(); ++i)
    PyTuple_SET_ITEM(key.get(), i, Py_NewRef(arguments[i]));
  if (instruction_->named || !key ||
      PyObject_Hash(key.get()) == -1) { // the key has a mark of functools' own
    PyErr_Clear();
    paths_.whole(cache, false);
    stores_.note({paths_.before_change(cache), -1}, called_);
    return;
  }
  load_item(cache, key.get());
  if (PyDict_Contains(cache, key.get()) == 0)
    stores_.note(paths_.item(cache, key.get()), called_);
  PyErr_Clear();
}

/// A special method of the object's class that is no Python code, `__getattr__ = dict.__getitem__`.
void Reads::call_special(PyObject *owner, const char *special, Arguments arguments) {
  PyTypeObject *type = Py_TYPE(owner);
  if (!has_user_attributes(type) || PyModule_Check(owner))
    return;
  const Owned text(PyUnicode_InternFromString(special));
  PyObject *found = _PyType_Lookup(type, text.get()); // borrowed
  if (!found || PyFunction_Check(found) || is_slot_of_base(found, special))
    return;
  paths_.class_attribute(type, text.get());
  call(found, arguments);
}

/// What is registered with an abstract base class is known to C code alone: the question is asked
/// again. Libraries' own classes are taken to be registered once and for all.
void Reads::ask_abstract_class(PyObject *type, PyObject *of) {
  if (!PyType_Check(type) || !PyType_Check(of) || is_ours(frame_->globals))
    return;
  if (!is_library_type(reinterpret_cast<PyTypeObject *>(type)) ||
      !is_library_type(reinterpret_cast<PyTypeObject *>(of)))
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
