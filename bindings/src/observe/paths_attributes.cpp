#include "base/forget_error.h"
#include "observe/paths.h"

#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"

#include <torch/csrc/Dtype.h>

#include <structmember.h>

#include <string_view>

/// Paths: the slots of attributes, of each kind of object, and what C code is asked again. Those of
/// classes are in paths_classes.cpp.

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
  forget_error();
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
  if (PyCell_Check(owner))
    return cell(owner);
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
    if (type->tp_name == "numpy.ndarray"sv && utf8(name) == "flags"sv)
      unguarded("numpy.ndarray.flags");
    else if (changes_unseen(owner))
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

/// `__code__` and the defaults have no place in the function's dict.
Paths::Position Paths::function_attribute(int object, PyObject *name) {
  auto *function = reinterpret_cast<PyFunctionObject *>(graph_.objects[object].object);
  const std::string_view text = utf8(name);
  if (text == "__closure__") // its cells have paths from now on
    this->function(graph_.objects[object].object, graph_.objects[object].name, false);
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
  if (of_owner.starts_with("numpy.random."))
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

Paths::Position Paths::instance(int object, PyObject *name) {
  const int c = container(object, Place::instance);
  return c < 0 ? Position{} : named(c, name, nullptr);
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

/// Whether the object's own attributes come before what its class has: a class attribute or a
/// method that the user's subclass defines. torch's own are not looked for in the object.
static bool may_be_shadowed(PyTypeObject *type, bool users, PyObject *name) {
  PyObject *found = _PyType_Lookup(type, name);
  if (!found)
    return true;
  return users && !Py_TYPE(found)->tp_descr_set && found != _PyType_Lookup(tensor_class(), name);
}

/// An attribute that torch's classes do not have.
Paths::Position Paths::tensor_attribute(PyObject *tensor, PyObject *name, bool stores) {
  PyTypeObject *type = Py_TYPE(tensor);
  const bool users = is_users_tensor_class(type);
  if (users)
    classes_.insert(type);
  class_attribute(type, name);
  if (!may_be_shadowed(type, users, name))
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
