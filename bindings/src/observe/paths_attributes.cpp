#include "observe/paths.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"

#include <torch/csrc/Dtype.h>

#include <structmember.h>

#include <string_view>

/// Paths: the slots of attributes, of each kind of object, and what C code is asked again.

namespace tracehost::python {

using namespace std::string_view_literals;

namespace {

bool same_text(PyObject *a, PyObject *b) { return a == b || PyUnicode_Compare(a, b) == 0; }

/// Names, or the arguments of a function.
bool is_same_question(Asked how, PyObject *a, PyObject *b) {
  if (how == Asked::subclass || !a || !b)
    return false;
  if (PyUnicode_Check(a) && PyUnicode_Check(b))
    return same_text(a, b);
  const int same = PyTuple_Check(a) && PyTuple_Check(b) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
  PyErr_Clear();
  return same == 1;
}

/// Where an object keeps its attributes and what refers to it weakly.
bool is_own_place(PyObject *name) {
  const std::string_view text = utf8(name);
  return text == "__dict__" || text == "__weakref__";
}

/// `torch._C.get_num_threads`
std::string function_name(PyObject *function) {
  auto *f = reinterpret_cast<PyCFunctionObject *>(function);
  const std::string of = f->m_module && PyUnicode_Check(f->m_module) ? utf8(f->m_module) : "";
  return of.empty() ? f->m_ml->ml_name : of + "." + f->m_ml->ml_name;
}

} // namespace

// ---- reads of one slot --------------------------------------------------------------------------

Paths::Position Paths::attribute(PyObject *owner, PyObject *name) {
  if (PyType_Check(owner))
    return type_attribute(reinterpret_cast<PyTypeObject *>(owner), name);
  if (is_tensor(owner))
    return tensor_attribute(owner, name, /*stores=*/false);
  if (PyObject *referent = behind(owner); referent != owner)
    return attribute(referent, name);
  PyTypeObject *type = Py_TYPE(owner);
  if (PyModule_Check(owner) && !knows(owner))
    find_module(owner);
  const int object = number_of(owner);
  if (object < 0) {
    use(owner);
    class_attribute(type, name); // the body's own object, of a class from before
    return {};
  }
  if (PyModule_Check(owner))
    return is_stream(owner, name) ? Position{}
                                  : named(container(object, Place::names), name, nullptr);
  if (PyMethod_Check(owner) || type == known().partial) {
    callee(owner);
    return {};
  }
  if (PyFunction_Check(owner))
    return function_attribute(object, name);
  if (!has_user_attributes(type)) {
    PyObject *found = _PyType_Lookup(type, name);
    if (changes_unseen(owner))
      use(owner);
    else if (found)
      c_field(owner, name, found);
    else if (_PyObject_GetDictPtr(owner))
      return instance(object, name);
    return {};
  }
  use(owner);
  if (asked_access_.insert(type).second) // another one would be asked first
    class_attribute(type, "__getattribute__");
  if (utf8(name) == "__class__"sv)
    class_of(owner);
  if (same_text(name, known().dict)) {
    const int c = container(object, Place::instance);
    if (c >= 0 && graph_.containers[c].dict)
      dicts_.try_emplace(graph_.containers[c].dict, c);
    return {};
  }
  const auto [found, position] = in_class(type, name);
  if (found && has_user_attributes(Py_TYPE(found)))
    for (const char *asked : {"__get__", "__set__"})
      class_attribute(Py_TYPE(found), asked);
  if (found && Py_IS_TYPE(found, &PyMemberDescr_Type))
    return member(object, found, name);
  if (found && is_tuple_field(found)) {
    whole(owner, false);
    return position;
  }
  if (found && Py_TYPE(found)->tp_descr_set) {
    c_field(owner, name, found);
    return position;
  }
  const Position at = instance(object, name);
  if (!found && (at.slot < 0 || !is_there(at)))
    class_attribute(type, "__getattr__");
  return at;
}

/// `type.__getattribute__`: a property of the metaclass comes first, its other attributes last.
Paths::Position Paths::type_attribute(PyTypeObject *type, PyObject *name) {
  if (!classes_.contains(type))
    return {};
  PyTypeObject *meta = Py_TYPE(type);
  const std::string_view text = utf8(name);
  if (text == "__name__")
    kept(type, Kept::its_name, "__name__", nullptr);
  else if (text == "__qualname__")
    kept(type, Kept::its_qualified_name, "__qualname__", nullptr);
  if (meta == &PyType_Type)
    return in_class(type, name).second;
  classes_.insert(meta);
  if (has_user_attributes(meta) || !is_library(origin_of_type(meta)))
    for (const char *asked : {"__getattribute__", "__getattr__"})
      class_attribute(meta, asked);
  const auto [of_meta, position] = in_class(meta, name);
  if (of_meta && Py_TYPE(of_meta)->tp_descr_set)
    return position;
  const auto [found, at] = in_class(type, name);
  return found ? at : position;
}

/// `__code__` and the defaults have no place in the function's dict.
Paths::Position Paths::function_attribute(int object, PyObject *name) {
  auto *function = reinterpret_cast<PyFunctionObject *>(graph_.objects[object].object);
  const std::string_view text = utf8(name);
  for (const auto &[field, index, value] :
       {std::tuple{"__defaults__", kDefaults, function->func_defaults},
        std::tuple{"__kwdefaults__", kKeywordDefaults, function->func_kwdefaults},
        std::tuple{"__code__", kCode, function->func_code},
        std::tuple{"__name__", kName, function->func_name},
        std::tuple{"__qualname__", kQualifiedName, function->func_qualname},
        std::tuple{"__annotations__", kAnnotations, function->func_annotations}})
    if (text == field)
      return numbered(container(object, Place::function), index, name, value);
  return instance(object, name);
}

/// What a type of C code gives for a name: a field is asked for again, a method is judged when it
/// is called.
void Paths::c_field(PyObject *owner, PyObject *name, PyObject *descriptor) {
  if (Py_TYPE(descriptor)->tp_name == "_ctypes.CField"sv)
    return ask(owner, name, Asked::attribute_of);
  if (!Py_IS_TYPE(descriptor, &PyGetSetDescr_Type) && !Py_IS_TYPE(descriptor, &PyMemberDescr_Type))
    return;
  const std::string_view of_owner = Py_TYPE(owner)->tp_name;
  if (of_owner.starts_with("numpy.random.") ||
      (of_owner == "numpy.ndarray" && utf8(name) == "flags"sv))
    return unguarded(std::string(of_owner) + "." + utf8(name));
  PyTypeObject *of = PyDescr_TYPE(descriptor);
  if (of != &PyBaseObject_Type && !is_fixed(of) && !is_own_place(name))
    ask(owner, name, Asked::attribute_of);
}

Paths::Position Paths::stored_attribute(PyObject *owner, PyObject *name) {
  if (PyType_Check(owner)) {
    auto *type = reinterpret_cast<PyTypeObject *>(owner);
    if (!classes_.contains(type) || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
      return {};
    return named(container(class_object(type), Place::names), name, nullptr);
  }
  if (is_tensor(owner))
    return tensor_attribute(owner, name, /*stores=*/true);
  if (asked_stores_.insert(Py_TYPE(owner)).second)
    for (const char *asked : {"__setattr__", "__delattr__"})
      class_attribute(Py_TYPE(owner), asked);
  return number_of(owner) < 0 ? Position{} : attribute(owner, name);
}

void Paths::class_attribute(PyTypeObject *type, PyObject *name) {
  if (classes_.contains(type))
    in_class(type, name);
}

void Paths::super_attribute(PyObject *type, PyObject *self, PyObject *name) {
  PyTypeObject *of = PyType_Check(self) ? reinterpret_cast<PyTypeObject *>(self) : Py_TYPE(self);
  if (!classes_.contains(of))
    of = Py_TYPE(self);
  if (!classes_.contains(of) || !of->tp_mro)
    return;
  bool after = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(of->tp_mro); ++i) {
    PyObject *base = PyTuple_GET_ITEM(of->tp_mro, i);
    auto *base_type = reinterpret_cast<PyTypeObject *>(base);
    if (after && base_type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
      const Position at = named(container(class_object(base_type), Place::names), name, nullptr);
      if (at.slot >= 0 && graph_.containers[at.container].slots[at.slot].value)
        return;
    }
    after |= base == type;
  }
}

Paths::Position Paths::instance(int object, PyObject *name) {
  const int c = container(object, Place::instance);
  return c < 0 ? Position{} : named(c, name, nullptr);
}

/// The first class that has the name, and the slot there. Classes before it are guarded to lack it.
std::pair<PyObject *, Paths::Position> Paths::in_class(PyTypeObject *type, PyObject *name) {
  if (!type->tp_mro)
    return {};
  inherits(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject *base = PyTuple_GET_ITEM(type->tp_mro, i);
    auto *of = reinterpret_cast<PyTypeObject *>(base);
    PyObject *found = of->tp_dict ? PyDict_GetItemWithError(of->tp_dict, name) : nullptr;
    PyErr_Clear();
    Position at;
    if (of->tp_flags & Py_TPFLAGS_HEAPTYPE)
      at = named(container(class_object(of), Place::names), name, nullptr);
    if (found)
      return {found, at};
    if (at.slot >= 0)
      read(at); // it lacks the name
  }
  return {};
}

/// What a class itself keeps of a name or its bases. Those of libraries stay as they are.
void Paths::kept(PyTypeObject *type, Kept what, const char *name, PyObject *value) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_library(origin_of_type(type)))
    return;
  const int c = container(class_object(type), Place::kind);
  const Owned key(PyUnicode_InternFromString(name));
  if (!value) {
    Slot probe;
    probe.index = what;
    value = python::read(graph_.containers[c], probe, reinterpret_cast<PyObject *>(type));
  }
  read(numbered(c, what, key.get(), value));
}

/// Bases other than `object` may be assigned.
void Paths::inherits(PyTypeObject *type) {
  if (inherits_.insert(type).second && PyTuple_GET_SIZE(type->tp_mro) > 2)
    kept(type, Kept::its_bases, "__mro__", type->tp_mro);
}

void Paths::class_of(PyObject *object) {
  if (PyType_Check(object)) {
    auto *type = reinterpret_cast<PyTypeObject *>(object);
    if (!classes_.contains(type) || !type->tp_mro)
      return;
    inherits(type);
    PyTypeObject *meta = Py_TYPE(type);
    if (meta == &PyType_Type || is_library(origin_of_type(meta)))
      return;
    classes_.insert(meta);
    for (const char *asked : {"__instancecheck__", "__subclasscheck__"})
      class_attribute(meta, asked);
    return;
  }
  PyTypeObject *type = Py_TYPE(object);
  if (is_tensor(object) || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return;
  if (classes_.contains(type))
    inherits(type);
  const int number = is_library(origin_of_type(type)) ? -1 : number_of(object);
  if (number < 0)
    return;
  if (const int c = container(number, Place::instance); c >= 0) {
    graph_.containers[c].pinned = true;
    return;
  }
  const Owned key(PyUnicode_InternFromString("__class__"));
  read(numbered(container(number, Place::kind), Kept::its_class, key.get(),
                reinterpret_cast<PyObject *>(type)));
}

/// A slot of a class with `__slots__`.
Paths::Position Paths::member(int object, PyObject *descriptor, PyObject *name) {
  const PyMemberDef *at = reinterpret_cast<PyMemberDescrObject *>(descriptor)->d_member;
  if (at->type != T_OBJECT_EX)
    return {};
  PyObject *owner = graph_.objects[object].object;
  return numbered(container(object, Place::members), static_cast<int>(at->offset), name,
                  *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(owner) + at->offset));
}

void Paths::code_of(PyObject *function) {
  const int object = number_of(function);
  if (object < 0)
    return;
  const Owned key(PyUnicode_InternFromString("__code__"));
  read(function_attribute(object, key.get()));
}

void Paths::ask(PyObject *object, PyObject *name, Asked how) {
  int number = number_of(object);
  if (how == Asked::function && name && (!PyTuple_Check(name) || may_hold(name)))
    return unguarded(function_name(object));
  if (number < 0 && how == Asked::function && PyCFunction_Check(object))
    number = root_object(object, function_name(object));
  if (number < 0 && PyType_Check(object))
    number = class_object(reinterpret_cast<PyTypeObject *>(object));
  if (number < 0)
    return;
  const int c = container(number, Place::asked);
  for (const Slot &s : graph_.containers[c].slots)
    if (s.index == how && (s.key == name || is_same_question(how, s.key, name)))
      return;
  Slot probe;
  probe.key = name;
  probe.index = how;
  PyObject *answer = python::read(graph_.containers[c], probe, object);
  const Owned keep(probe.answer);
  const bool may_lack = how == Asked::context;
  if (answer ? is_plain(Py_TYPE(answer), answer) || THPDtype_Check(answer) : may_lack)
    read(add_slot(c, how, name, answer));
  else if (may_lack)
    serves_once(std::string("reads the context variable ") + graph_.prefix(number) +
                graph_.suffix(number) + ", which holds a " + Py_TYPE(answer)->tp_name);
  else
    unguarded(graph_.prefix(number) + graph_.suffix(number) + ", of type " +
              Py_TYPE(object)->tp_name);
}

/// The object of a tensor with a path, or -1.
int Paths::tensor_object(PyObject *tensor) {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end())
    return -1;
  const auto [c, s] = found->second;
  Slot &slot = graph_.containers[c].slots[s];
  if (slot.object < 0) {
    slot.primary = true;
    slot.object = add_object(tensor, c, s);
  }
  return graph_.containers[c].slots[s].object;
}

/// The name as one object, which lives as long as the process: few names are asked for.
static PyObject *kept_name(PyObject *name) {
  Py_INCREF(name); // which nothing gives back
  PyUnicode_InternInPlace(&name);
  return name;
}

/// An attribute that torch's classes do not have.
Paths::Position Paths::tensor_attribute(PyObject *tensor, PyObject *name, bool stores) {
  class_attribute(Py_TYPE(tensor), name);
  if (_PyType_Lookup(Py_TYPE(tensor), name))
    return {};
  if (const int object = tensor_object(tensor); object >= 0)
    return instance(object, name);
  const std::string_view text = utf8(name);
  if (!given_.contains(tensor) || text == "_is_param") // which isinstance asks of any tensor
    return {};
  PyObject **attributes = _PyObject_GetDictPtr(tensor);
  const bool there = attributes && *attributes && PyDict_Contains(*attributes, name) == 1;
  if (!stores && !there)
    absent_.insert(kept_name(name));
  else
    serves_once(std::string(stores ? "stores" : "reads") + " the attribute '" + std::string(text) +
                "' of a tensor that is passed to it");
  return {};
}

} // namespace tracehost::python
