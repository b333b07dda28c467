#include "environment/gil.h"
#include "environment/known.h"
#include "environment/walker.h"
#include "errors.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>

/// Walker: the containers that each kind of object has.

namespace tracehost::python {

void Walker::expand(int index) {
  PyObject *object = graph_.objects[index].object;
  PyTypeObject *type = Py_TYPE(object);
  const auto last = [&] { return static_cast<int>(graph_.containers.size()) - 1; };

  if (PyDict_Check(object)) {
    const Object &o = graph_.objects[index];
    Container &c = add_container(index, Place::entries);
    c.length = PyDict_GET_SIZE(object);
    if (o.container >= 0 && graph_.containers[o.container].place == Place::instance) {
      PyObject *key = graph_.containers[o.container].slots[o.slot].key;
      c.module = (key == known().parameters || key == known().buffers || key == known().modules) &&
                 PyType_IsSubtype(graph_.objects[graph_.containers[o.container].object].type,
                                  known().nn_module);
    }
    const int container = last();
    PyObject *key, *value;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; count < kElements && PyDict_Next(object, &at, &key, &value); ++count)
      record(container, key, static_cast<int>(count), value);
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    add_container(index, Place::items).length = Py_SIZE(object);
    const int container = last();
    const Py_ssize_t count = std::min<Py_ssize_t>(Py_SIZE(object), kElements);
    for (Py_ssize_t i = 0; i < count; ++i)
      record(container, nullptr, static_cast<int>(i), PySequence_Fast_ITEMS(object)[i]);
  } else if (PyAnySet_CheckExact(object)) {
    add_container(index, Place::set).length = PySet_GET_SIZE(object);
    const int container = last();
    const Owned elements(PySequence_List(object)); // a copy: it asks no element for its hash
    if (!elements)
      rethrow();
    Py_ssize_t count = 0;
    // Strings, numbers and the like; of other elements only how many there are.
    for (Py_ssize_t i = 0; count < kElements && i < PyList_GET_SIZE(elements.get()); ++i)
      if (PyObject *element = PyList_GET_ITEM(elements.get(), i);
          is_plain(Py_TYPE(element), element))
        record(container, element, static_cast<int>(count++), element);
  } else if (PyMethod_Check(object)) {
    add_container(index, Place::method);
    const int container = last();
    Owned self(PyUnicode_InternFromString("__self__")),
        function(PyUnicode_InternFromString("__func__"));
    record(container, self.get(), 0, PyMethod_GET_SELF(object));
    record(container, function.get(), 1, PyMethod_GET_FUNCTION(object));
    return;
  } else if (type == known().partial) {
    add_container(index, Place::partial);
    const int container = last();
    for (const char *field : {"func", "args", "keywords"}) {
      Owned key(PyUnicode_InternFromString(field));
      Owned value(PyObject_GetAttr(object, key.get()));
      PyErr_Clear();
      record(container, key.get(), 0, value.get());
    }
    return;
  } else if (PyModule_Check(object)) {
    add_container(index, Place::names);
    take_names(last(), nullptr);
    return;
  } else if (PyType_Check(object)) {
    return; // by reach_class
  } else if (PyFunction_Check(object)) {
    if (reinterpret_cast<PyFunctionObject *>(object)->func_dict) {
      add_container(index, Place::instance);
      take_names(last(), nullptr);
    }
    return;
  }
  const Class facts = class_of(type);
  if (!facts.attributes)
    return;
  if (_PyObject_GetDictPtr(object)) {
    Owned made(
        PyObject_GenericGetDict(object, nullptr)); // so that its address is known from now on
    PyErr_Clear();
    Container &c = add_container(index, Place::instance);
    c.all =
        std::strcmp(type->tp_name, "ParameterDict") == 0; // keeps its values under computed names
    take_names(last(), nullptr);
  }
  if (facts.members)
    members(index);
  reach_class(type);
}

void Walker::expand_function(int index) {
  PyObject *object = graph_.objects[index].object;
  auto *function = reinterpret_cast<PyFunctionObject *>(object);
  auto *code = reinterpret_cast<PyCodeObject *>(function->func_code);
  add_container(index, Place::function);
  const int container = static_cast<int>(graph_.containers.size()) - 1;
  if (function->func_closure) {
    Owned free(PyCode_GetFreevars(code));
    for (Py_ssize_t i = 0; free && i < PyTuple_GET_SIZE(free.get()); ++i)
      record(container, PyTuple_GET_ITEM(free.get(), i), static_cast<int>(i),
             PyCell_GET(PyTuple_GET_ITEM(function->func_closure, i)));
  }
  if (function->func_defaults) {
    Owned key(PyUnicode_InternFromString("__defaults__"));
    record(container, key.get(), kDefaults, function->func_defaults);
  }
  if (function->func_kwdefaults) {
    Owned key(PyUnicode_InternFromString("__kwdefaults__"));
    record(container, key.get(), kKeywordDefaults, function->func_kwdefaults);
  }
}

void Walker::reach_class(PyTypeObject *type) {
  if (!classes_.insert(type).second || !type->tp_mro)
    return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    PyObject *base = PyTuple_GET_ITEM(type->tp_mro, i);
    if (objects_.contains(base) || is_library_type(reinterpret_cast<PyTypeObject *>(base)))
      continue;
    const char *name = reinterpret_cast<PyTypeObject *>(base)->tp_name;
    const int object = root_object(base, name);
    add_container(object, Place::names);
    take_names(static_cast<int>(graph_.containers.size()) - 1, nullptr);
  }
}

Walker::Class Walker::class_of(PyTypeObject *type) {
  if (const auto found = class_facts_.find(type); found != class_facts_.end())
    return found->second;
  Class facts{has_user_attributes(type), false};
  for (Py_ssize_t i = 0; facts.attributes && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    const auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i));
    facts.members |= (base->tp_flags & Py_TPFLAGS_HEAPTYPE) && base->tp_dict &&
                     PyDict_GetItemWithError(base->tp_dict, known().slots);
  }
  return class_facts_.emplace(type, facts).first->second;
}

void Walker::members(int object) {
  // Few classes have `__slots__`; their member descriptors are found in the class dicts.
  PyObject *instance = graph_.objects[object].object;
  PyObject *mro = Py_TYPE(instance)->tp_mro;
  int container = -1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); ++i) {
    auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(mro, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) || !base->tp_dict ||
        !PyDict_GetItemWithError(base->tp_dict, known().slots))
      continue;
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(base->tp_dict, &at, &key, &value);) {
      if (!Py_IS_TYPE(value, &PyMemberDescr_Type))
        continue;
      const PyMemberDef *member = reinterpret_cast<PyMemberDescrObject *>(value)->d_member;
      if (member->type != T_OBJECT_EX)
        continue;
      if (container < 0) {
        add_container(object, Place::members);
        container = static_cast<int>(graph_.containers.size()) - 1;
      }
      // All of them at once: there are few, and names to come need not look again.
      record(container, key, static_cast<int>(member->offset),
             *reinterpret_cast<PyObject **>(reinterpret_cast<char *>(instance) + member->offset));
    }
  }
}

} // namespace tracehost::python
