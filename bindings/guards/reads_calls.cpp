#include "guards/gil.h"
#include "guards/kinds.h"
#include "guards/known.h"
#include "guards/reads.h"
#include "origin.h"

#include <algorithm>
#include <iterator>
#include <vector>

/// Reads: what is called, and how. Python code is observed while it runs; what C code reads of its
/// arguments is said in reads_named.cpp.

namespace tracehost::python {

namespace {

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

bool is_asked_again(std::string_view name) {
  return std::find(std::begin(kAskedAgain), std::end(kAskedAgain), name) != std::end(kAskedAgain);
}

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
    if (arguments.empty() && is_asked_again(function->m_ml->ml_name))
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
        is_asked_again(utf8(reinterpret_cast<PyDescrObject *>(callable)->d_name)))
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
    if (!(of->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_library(origin_of_type(of))) {
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

} // namespace tracehost::python
