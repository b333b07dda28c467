#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "observe/paths.h"

#include <string_view>

/// Paths: what the body looks up on a class and its bases, and what a class or object is beside its
/// attributes.

namespace tracehost::python {

// ---- names --------------------------------------------------------------------------------------

/// `type.__getattribute__`: a property of the metaclass comes first, its other attributes last.
Paths::Position Paths::type_attribute(PyTypeObject *type, PyObject *name) {
  if (is_users_tensor_class(type))
    classes_.insert(type);
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

/// The first class that has the name, and the slot there. Classes before it are guarded to lack it.
std::pair<PyObject *, Paths::Position> Paths::in_class(PyTypeObject *type, PyObject *name) {
  if (!type->tp_mro)
    return {};
  inherits(type);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject *base = PyTuple_GET_ITEM(type->tp_mro, i);
    auto *of = reinterpret_cast<PyTypeObject *>(base);
    PyObject *found = of->tp_dict ? PyDict_GetItemWithError(of->tp_dict, name) : nullptr;
    forget_error();
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

} // namespace tracehost::python
