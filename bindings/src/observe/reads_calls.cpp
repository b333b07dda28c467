#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "observe/reads.h"
#include "trace/tracer.h"

#include <utility>
#include <vector>

/// Reads: what is called, and how. Python code is observed while it runs; what C code reads of its
/// arguments is said in reads_effects.cpp.

namespace tracehost::python {

namespace {

std::vector<PyObject *> with_self(PyObject *self, std::span<PyObject *const> arguments) {
  std::vector<PyObject *> all{self};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

/// A function of a module, also one that pybind11 makes: its `self` is its own record.
bool is_function(PyObject *self) {
  return !self || PyModule_Check(self) || PyCapsule_CheckExact(self) || PyCFunction_Check(self) ||
         std::string_view(Py_TYPE(self)->tp_name).starts_with("pybind11");
}

/// `collections.deque` as two words; `int` is of builtins.
std::pair<std::string_view, std::string_view> split(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? std::pair{std::string_view("builtins"), name}
                                       : std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

/// What a C base class does by itself: object.__setattr__, BaseException.__setattr__.
bool is_slot_of_base(PyObject *found, std::string_view special) {
  return Py_IS_TYPE(found, &PyWrapperDescr_Type) && utf8(PyDescr_NAME(found)) == special;
}

/// A method that a C type gives an object: `super().__setattr__`.
bool is_slot_wrapper(PyObject *callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "method-wrapper";
}

bool is_method_caller(PyObject *callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "operator.methodcaller";
}

/// What stands in the place of a method of torch.Tensor (hooks/forwarding.h).
bool is_forwarded(PyObject *callable) {
  return std::string_view(Py_TYPE(callable)->tp_name) == "tracehost._tracehost.method";
}

/// A function of torch._C, by identity.
bool is_of_torch(PyObject *callable, const char *name) {
  const Owned text(PyUnicode_InternFromString("torch._C"));
  PyObject *module = PyDict_GetItemWithError(PyImport_GetModuleDict(), text.get()); // borrowed
  const Owned found(module ? PyObject_GetAttrString(module, name) : nullptr);
  forget_error();
  return found.get() == callable;
}

} // namespace

/// The stack: two words for what is called, its arguments, and the names of the last of these.
void Reads::calls(int names) {
  const int count = instruction_->argument;
  const std::vector<PyObject *> words(top_ - names - count - 2, top_ - names);
  PyObject *first = words[0], *second = words[1];
  PyObject *callable = kCallableFirst ? first : first ? first : second;
  const bool bound = kCallableFirst ? second != nullptr : first != nullptr;
  call(callable, Arguments(words).subspan(bound ? 1 : 2));
}

void Reads::calls_unpacked() {
  const int named = kAlwaysNames || instruction_->argument & 1;
  named_ = named && operand(1);
  PyObject *positional = operand(1 + named);
  PyObject *callable = kCallableFirst ? operand(3 + named) : operand(2 + named);
  paths_.whole(positional, false);
  if (named_)
    paths_.whole(operand(1), false);
  out_ = named_;
  if (named_ && PyDict_CheckExact(operand(1))) {
    PyObject *out = PyDict_GetItemString(operand(1), "out"); // borrowed
    out_ = out && out != Py_None;
    forget_error();
  }
  std::vector<PyObject *> arguments;
  if (PyTuple_Check(positional) || PyList_Check(positional))
    arguments.assign(PySequence_Fast_ITEMS(positional),
                     PySequence_Fast_ITEMS(positional) + Py_SIZE(positional));
  if (named_ && PyDict_Check(operand(1))) {
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
  if (type == known().partial)
    return call_partial(callable, arguments);
  if (PyCFunction_Check(callable))
    return call_c_function(callable, arguments);
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type))
    return call_descriptor(callable, arguments);
  if (is_slot_wrapper(callable))
    return call_slot_wrapper(callable, arguments);
  if (PyType_Check(callable))
    return call_type(reinterpret_cast<PyTypeObject *>(callable), arguments);
  if (type == known().lru_cache)
    return call_cached(callable, arguments);
  if (PyWeakref_CheckRef(callable))
    return paths_.read(paths_.referent_of(callable));
  if (is_getter(callable)) {
    for (PyObject *argument : arguments)
      use_getter(callable, argument);
    return;
  }
  if (is_method_caller(callable))
    return call_named(callable, arguments);
  if (is_forwarded(callable) && !arguments.empty() && arguments[0] && is_tensor(arguments[0])) {
    const Owned name(PyObject_GetAttrString(callable, "__name__"));
    forget_error();
    if (name && PyUnicode_Check(name.get()))
      return call_method(arguments[0], utf8(name.get()), arguments);
  }
  call_object(callable, arguments);
}

void Reads::call_c_function(PyObject *callable, Arguments arguments) {
  auto *function = reinterpret_cast<PyCFunctionObject *>(callable);
  const std::string_view name = function->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(callable);
  if (is_function(self)) {
    std::string_view module =
        function->m_module && PyUnicode_Check(function->m_module) ? utf8(function->m_module) : "";
    if (module.empty() && (origin_of(frame_->code) == Origin::torch ||
                           is_of_torch(callable, function->m_ml->ml_name)))
      module = "torch"; // some of its functions have none
    return apply(rule_of(module, name), {.of = module, .name = name, .callable = callable},
                 arguments);
  }
  if (paths_.knows(callable) && rule_of_method(self, name).effect != Effect::process_state)
    return call_kept(callable, self, arguments);
  call_method(self, name, with_self(self, arguments));
}

void Reads::call_method(PyObject *self, std::string_view name, Arguments with_self) {
  const auto *of = PyType_Check(self) ? reinterpret_cast<PyTypeObject *>(self) : Py_TYPE(self);
  apply(rule_of_method(self, name), {.of = of->tp_name, .name = name, .method = true}, with_self);
}

/// `dict.get`, taken from its class.
void Reads::call_descriptor(PyObject *descriptor, Arguments arguments) {
  if (!arguments.empty() && arguments[0])
    call_method(arguments[0], utf8(PyDescr_NAME(descriptor)), arguments);
}

/// A class that Python code makes runs its own `__new__` and `__init__`.
void Reads::call_type(PyTypeObject *type, Arguments arguments) {
  check_use_of_type(reinterpret_cast<PyObject *>(type));
  // C code gives its types names with their module.
  const bool of_c = !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) ||
                    std::string_view(type->tp_name).find('.') != std::string_view::npos;
  if (of_c || is_library(origin_of_type(type))) {
    auto [module, name] = split(type->tp_name);
    const Owned of(of_c ? nullptr
                        : PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
    forget_error();
    if (of && PyUnicode_Check(of.get()))
      module = utf8(of.get());
    Rule rule = rule_of(module, name);
    if (rule.effect == Effect::unknown && !of_c)
      rule = {Effect::changes, Purity::of_objects};
    return apply(rule, {.of = module, .name = name}, arguments);
  }
  for (const char *asked : {"__new__", "__init__"})
    paths_.class_attribute(type, asked);
}

/// An object with `__call__`, which is Python code, or what an extension has made.
void Reads::call_object(PyObject *callable, Arguments arguments) {
  PyTypeObject *type = Py_TYPE(callable);
  const Owned text(PyUnicode_InternFromString("__call__"));
  paths_.class_attribute(type, text.get());
  PyObject *found = _PyType_Lookup(type, text.get()); // borrowed
  if (found && PyFunction_Check(found))
    return;
  if (found && PyCFunction_Check(found))
    return call_c_function(found, arguments);
  const Owned module(PyObject_GetAttrString(callable, "__module__"));
  const Owned name(PyObject_GetAttrString(callable, "__name__"));
  forget_error();
  const bool named = module && name && PyUnicode_Check(module.get()) && PyUnicode_Check(name.get());
  const auto [of, own] =
      named ? std::pair<std::string_view, std::string_view>(utf8(module.get()), utf8(name.get()))
            : split(type->tp_name);
  // Methods of numpy's generators are no builtins: no profile event reports them.
  const bool may_draw = !arguments.empty() && !called_ && trace::recording();
  if (may_draw && foreign_generator(arguments[0]) == "numpy.random")
    trace::note_draw("numpy.random." + std::string(own));
  // A function of numpy, which has no state: np.add, np.mean.
  const bool of_numpy = std::string_view(type->tp_name).starts_with("numpy.") && named;
  Rule rule = of_numpy ? rule_of(of, own) : rule_of_object(of, own);
  std::vector<PyObject *> all(arguments.begin(), arguments.end());
  if (rule.effect == Effect::unknown) // it may have a state of its own
    all = with_self(callable, arguments);
  apply(rule, {.of = of, .name = own, .callable = of_numpy ? callable : nullptr}, all);
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
  if (named_ || !key || PyObject_Hash(key.get()) == -1) { // the key has a mark of functools' own
    forget_error();
    paths_.whole(cache, false);
    note_store({paths_.before_change(cache), -1}, nullptr);
    return;
  }
  load_item(cache, key.get());
  if (PyDict_Contains(cache, key.get()) == 0)
    note_store(paths_.item(cache, key.get()), nullptr);
  forget_error();
}

/// `with manager:` in a side of an `if`, where C code enters: a lock, a file.
void Reads::enter(PyObject *manager) {
  if (!sides_.has_sides())
    return;
  const Owned text(PyUnicode_InternFromString("__enter__"));
  PyObject *found = _PyType_Lookup(Py_TYPE(manager), text.get()); // borrowed
  if (found && !PyFunction_Check(found))
    call(found, {&manager, 1});
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
