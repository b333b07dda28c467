#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "observe/reads.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

/// Reads: what is called in the end: through a functools.partial, a method that was kept with its
/// object, an operator.methodcaller; and what C code calls with elements, as map() does.

namespace tracehost::python {

namespace {

/// Of more elements than this none is looked at alone.
constexpr std::size_t kMostElements = 1000;

std::vector<PyObject *> joined(PyObject *first, std::span<PyObject *const> others) {
  std::vector<PyObject *> all{first};
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

bool runs_python_code(PyObject *callable) {
  return PyFunction_Check(callable) ||
         (PyMethod_Check(callable) && PyFunction_Check(PyMethod_GET_FUNCTION(callable)));
}

/// A callable of C code that calls what it is given with the elements of the other arguments.
struct Applies {
  bool calls = false;   ///< with one element of each iterable, in the order of the arguments
  bool unpacks = false; ///< with the parts of each element: starmap
  bool reduces = false;
};

Applies applies(std::string_view name) {
  constexpr std::array kOne{
      "map",    "filter",      "filterfalse",  "takewhile", "dropwhile",   "accumulate",  "groupby",
      "sorted", "sort",        "min",          "max",       "nsmallest",   "nlargest",    "merge",
      "bisect", "bisect_left", "bisect_right", "insort",    "insort_left", "insort_right"};
  const bool one = std::ranges::any_of(kOne, [name](std::string_view n) { return n == name; });
  return {one || name == "starmap" || name == "reduce", name == "starmap", name == "reduce"};
}

/// The elements of what can be looked at without a change of it; null: it can't.
Owned elements_of(PyObject *iterable) {
  if (!is_collection(iterable) && !PyUnicode_CheckExact(iterable) &&
      !PyObject_TypeCheck(iterable, &PyRange_Type) && !has_inner_dict(Py_TYPE(iterable)))
    return Owned();
  const Py_ssize_t size = PyObject_Size(iterable);
  Owned found(size < 0 || size > static_cast<Py_ssize_t>(kMostElements)
                  ? nullptr
                  : PySequence_List(iterable));
  forget_error();
  return found;
}

/// Whether it reads by names, so that to read its arguments whole is not enough.
bool named_reads(PyObject *callable) {
  if (is_getter(callable))
    return true;
  const std::string_view name =
      PyCFunction_Check(callable)
          ? std::string_view(reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name)
          : std::string_view();
  return name == "getattr" || name == "hasattr" || name == "vars" || name == "setattr";
}

/// Whether it calls later, as its elements are taken.
bool is_lazy(std::string_view name) {
  constexpr std::array kLazy{"map",       "filter",     "filterfalse", "takewhile",
                             "dropwhile", "accumulate", "groupby",     "starmap"};
  return std::ranges::any_of(kLazy, [name](std::string_view n) { return n == name; });
}

/// What pickles the callable: its class, and what it was made of.
Owned made_of(PyObject *callable) {
  Owned made(PyObject_CallMethod(callable, "__reduce__", nullptr));
  forget_error();
  return made && PyTuple_Check(made.get()) && PyTuple_GET_SIZE(made.get()) > 1 &&
                 PyTuple_Check(PyTuple_GET_ITEM(made.get(), 1))
             ? std::move(made)
             : Owned();
}

void append(std::vector<PyObject *> &all, PyObject *tuple, Py_ssize_t from) {
  for (Py_ssize_t i = from; i < PyTuple_GET_SIZE(tuple); ++i)
    all.push_back(PyTuple_GET_ITEM(tuple, i));
}

void append_values(std::vector<PyObject *> &all, PyObject *dict) {
  PyObject *key, *value;
  for (Py_ssize_t at = 0; dict && PyDict_Check(dict) && PyDict_Next(dict, &at, &key, &value);)
    all.push_back(value);
}

} // namespace

// ---- one call -----------------------------------------------------------------------------------

void Reads::call_partial(PyObject *partial, Arguments arguments) {
  paths_.callee(partial);
  const Owned function(PyObject_GetAttrString(partial, "func"));
  const Owned bound(PyObject_GetAttrString(partial, "args"));
  const Owned named(PyObject_GetAttrString(partial, "keywords"));
  forget_error();
  if (!function || !bound || !PyTuple_Check(bound.get()))
    return;
  std::vector<PyObject *> all;
  append(all, bound.get(), 0);
  all.insert(all.end(), arguments.begin(), arguments.end());
  append_values(all, named.get());
  call(function.get(), all);
}

/// operator.methodcaller("append", x)(h). Code of Python is observed where it runs. With keywords
/// it is pickled as a partial of its class.
void Reads::call_named(PyObject *caller, Arguments arguments) {
  const Owned made = made_of(caller);
  PyObject *how = made ? PyTuple_GET_ITEM(made.get(), 0) : nullptr;
  const bool partial = how && Py_TYPE(how) == known().partial;
  const Owned bound(partial ? PyObject_GetAttrString(how, "args") : nullptr);
  const Owned named(partial ? PyObject_GetAttrString(how, "keywords") : nullptr);
  forget_error();
  std::vector<PyObject *> got;
  if (bound && PyTuple_Check(bound.get()))
    append(got, bound.get(), 0);
  if (made)
    append(got, PyTuple_GET_ITEM(made.get(), 1), 0);
  append_values(got, named.get());
  PyObject *self = arguments.size() == 1 ? arguments[0] : nullptr;
  if (!self || got.empty() || !PyUnicode_Check(got[0]))
    return read_contents(arguments, /*may_store=*/true);
  if (paths_.knows(caller) && std::ranges::any_of(got, [this](PyObject *part) {
        return is_from_outside(part) || (!is_plain(Py_TYPE(part), part) && is_collection(part));
      }))
    paths_.unguarded("what an operator.methodcaller was given");
  load_attribute(self, got[0]);
  PyObject *method = _PyType_Lookup(Py_TYPE(self), got[0]); // borrowed
  const Owned keep(Py_XNewRef(method));
  const Owned own(method ? nullptr : PyObject_GenericGetAttr(self, got[0]));
  forget_error();
  const std::span<PyObject *const> others(got.data() + 1, got.size() - 1);
  if (method)
    call(method, joined(self, others));
  else if (own)
    call(own.get(), others);
}

/// A method that was kept with its object: `draw = rng.random`, `push = rows.append`. The object
/// has its path through the method. One that may change unseen can't be compared.
void Reads::call_kept(PyObject *callable, PyObject *self, Arguments arguments) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name;
  if (is_tensor(self) || PyModule_Check(self)) {
    note_callable(callable);
    return read_contents(arguments, /*may_store=*/true);
  }
  if (!called_ && is_opaque(self) && !is_collection(self))
    paths_.unguarded(std::string(name) + "() of type " + Py_TYPE(self)->tp_name);
  paths_.callee(callable);
  call_method(self, name, joined(self, arguments));
}

/// `d.__getitem__`, `super().__setattr__`.
void Reads::call_slot_wrapper(PyObject *wrapper, Arguments arguments) {
  const Owned self(PyObject_GetAttrString(wrapper, "__self__"));
  const Owned name(PyObject_GetAttrString(wrapper, "__name__"));
  forget_error();
  if (!self || !name)
    return;
  if (paths_.knows(wrapper) && !is_tensor(self.get())) {
    if (is_opaque(self.get()) && !is_collection(self.get()))
      paths_.unguarded(std::string("a method of type ") + Py_TYPE(self.get())->tp_name);
    paths_.callee(wrapper);
  }
  const std::string_view text = utf8(name.get());
  if (text == "__call__")
    return call(self.get(), arguments);
  const bool describes =
      Py_IS_TYPE(self.get(), &PyMemberDescr_Type) || Py_IS_TYPE(self.get(), &PyGetSetDescr_Type);
  if (text == "__get__" && describes && !arguments.empty() && arguments[0])
    return load_attribute(arguments[0], PyDescr_NAME(self.get()));
  call_method(self.get(), text, joined(self.get(), arguments));
}

// ---- many calls ---------------------------------------------------------------------------------

/// What C code reads and stores where it calls C code that it was given, as a `key=` or by map().
void Reads::use_callables(Effect effect, const Called &called, Arguments arguments) {
  if (called.name == "run" && arguments.size() > 1 && arguments[0] &&
      Py_IS_TYPE(arguments[0], &PyContext_Type))
    return call(arguments[1], arguments.subspan(2));
  const bool looks = effect == Effect::elements || effect == Effect::contents ||
                     effect == Effect::moves || effect == Effect::changes;
  for (PyObject *callable : arguments) {
    if (!callable || !PyCallable_Check(callable))
      continue;
    if (PyMethod_Check(callable) || Py_TYPE(callable) == known().partial)
      paths_.callee(callable);
    if (runs_python_code(callable))
      continue;
    const Applies how = applies(called.name);
    const bool takes = looks && how.calls;
    if (how.reduces && takes && callable == arguments[0])
      reduce(arguments);
    else if (takes)
      call_with_elements(callable, called, arguments);
    else if (is_getter(callable))
      taker().applied = callable;
  }
}

void Reads::call_with_elements(PyObject *callable, const Called &called, Arguments arguments) {
  const bool unpacks = applies(called.name).unpacks;
  std::vector<Owned> elements;
  std::vector<PyObject *> iterables;
  std::size_t shortest = kMostElements;
  PyObject *self = PyCFunction_Check(callable) ? PyCFunction_GET_SELF(callable) : nullptr;
  if (self && is_collection(self)) // what it gives is compared, or added
    read_contents(std::array{self}, /*may_store=*/true);
  for (PyObject *argument : arguments) {
    if (!argument || argument == callable)
      continue;
    paths_.whole(argument, false);
    iterables.push_back(argument);
    if (Owned found = elements_of(argument)) {
      shortest = std::min(shortest, static_cast<std::size_t>(PyList_GET_SIZE(found.get())));
      elements.push_back(std::move(found));
    }
  }
  if (iterables.size() > 1 && (called.name == "min" || called.name == "max")) {
    for (PyObject *one : iterables)
      call(callable, std::array{one});
    if (!PyIter_Check(iterables[0]) && !is_collection(iterables[0]))
      return; // else another one may be a default
  }
  taker().applied = callable;
  if (elements.size() < iterables.size() && named_reads(callable) && is_lazy(called.name))
    for (PyObject *iterable : iterables)
      if (PyGen_CheckExact(iterable))
        paths_.unguarded("what an iterator gives to a function of C code");
  if (elements.empty() || (called.name == "map" && elements.size() < iterables.size())) {
    for (PyObject *iterable : iterables)
      for (PyObject *part : parts_of(iterable, /*all=*/true))
        if (part != iterable)
          call(callable, std::array{part});
    return;
  }
  if (called.name != "map") { // other arguments are no iterables
    for (const Owned &list : elements)
      call_with_each(callable, list.get(), unpacks);
    return;
  }
  for (std::size_t i = 0; i < shortest; ++i) {
    std::vector<PyObject *> one;
    for (const Owned &list : elements)
      one.push_back(PyList_GET_ITEM(list.get(), static_cast<Py_ssize_t>(i)));
    call(callable, one);
  }
}

void Reads::call_with_each(PyObject *callable, PyObject *elements, bool unpacks) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements); ++i) {
    PyObject *element = PyList_GET_ITEM(elements, i);
    if (!unpacks) {
      call(callable, std::array{element});
    } else if (PyTuple_Check(element) || PyList_Check(element)) {
      paths_.whole(element, false);
      call(callable, {PySequence_Fast_ITEMS(element), static_cast<std::size_t>(Py_SIZE(element))});
    }
  }
}

/// functools.reduce(f, elements, first). What f gives is known of getattr and of items alone.
void Reads::reduce(Arguments arguments) {
  PyObject *callable = arguments[0];
  const Owned elements(arguments.size() > 1 ? elements_of(arguments[1]).release() : nullptr);
  if (!elements)
    return;
  const auto named = [callable](std::string_view name) {
    return PyCFunction_Check(callable) &&
           reinterpret_cast<PyCFunctionObject *>(callable)->m_ml->ml_name == name;
  };
  PyObject *first = arguments.size() > 2 ? arguments[2] : nullptr;
  if (named("getattr") && first) {
    follow(first, elements.get());
    return;
  }
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(elements.get()); ++i) {
    PyObject *element = PyList_GET_ITEM(elements.get(), i);
    const bool next = first && is_collection(first) && PyDict_Check(first) &&
                      PyDict_GetItemWithError(first, element);
    call(callable, std::array{first ? first : element, element});
    forget_error();
    if (next)
      first = PyDict_GetItemWithError(first, element);
  }
}

/// attrgetter("config.scale"), for each part in turn.
void Reads::use_getter(PyObject *getter, PyObject *object) {
  const Owned made = made_of(getter);
  PyObject *names = made ? PyTuple_GET_ITEM(made.get(), 1) : nullptr;
  for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i) {
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

/// object.a.b of the names "a" and "b": the last one, borrowed, or null.
PyObject *Reads::follow(PyObject *object, PyObject *names) {
  for (Py_ssize_t i = 0; object && i < PySequence_Fast_GET_SIZE(names); ++i) {
    PyObject *name = PySequence_Fast_GET_ITEM(names, i);
    if (!PyUnicode_Check(name))
      return nullptr;
    const Paths::Position found = paths_.attribute(object, name);
    paths_.read(found);
    object = found.slot >= 0 ? paths_.graph().containers[found.container].slots[found.slot].value
                             : nullptr;
  }
  return object;
}

} // namespace tracehost::python
