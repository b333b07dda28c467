#include "pytree/assemble.h"

#include "base/known.h"

namespace tracehost::python {
namespace {

Owned tuple_of(Children &children, std::size_t from = 0) {
  Owned result(PyTuple_New(static_cast<Py_ssize_t>(children.size() - from)));
  for (std::size_t i = from; result && i < children.size(); ++i)
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i - from), children[i].release());
  return result;
}

Owned list_of(Children &children, std::size_t from = 0) {
  Owned result(PyList_New(static_cast<Py_ssize_t>(children.size() - from)));
  for (std::size_t i = from; result && i < children.size(); ++i)
    PyList_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i - from), children[i].release());
  return result;
}

PyObject *object(PyTypeObject *type) { return reinterpret_cast<PyObject *>(type); }

/// By the class in C that instances are of.
PyObject *instance(PyTypeObject *type, PyObject *argument = nullptr) {
  const Owned args(argument ? PyTuple_Pack(1, argument) : PyTuple_New(0));
  return args ? class_in_c(type)->tp_new(type, args.get(), nullptr) : nullptr;
}

PyObject *tuple(PyTypeObject *type, Children &children) {
  Owned plain = tuple_of(children);
  if (!plain || type == &PyTuple_Type)
    return plain.release();
  // torch.Size, and what C code of torch returns, have no other way.
  const bool own = type->tp_base == &PyTuple_Type && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (own || PyObject_HasAttrString(object(type), "n_sequence_fields"))
    return PyObject_CallOneArg(object(type), plain.get());
  const Owned args(PyTuple_Pack(1, plain.get()));
  return args ? PyTuple_Type.tp_new(type, args.get(), nullptr) : nullptr;
}

PyObject *list(PyTypeObject *type, Children &children) {
  Owned plain = list_of(children);
  if (!plain || type == &PyList_Type)
    return plain.release();
  Owned result(instance(type));
  if (!result || PyList_SetSlice(result.get(), 0, 0, plain.get()))
    return nullptr;
  return result.release();
}

/// Takes a deque's maxlen out of `further`, because it is set only when the deque is made.
PyObject *sequence(const ContainerType &type, Children &children, PyObject *further) {
  const Owned plain = list_of(children);
  if (!plain || type.kind() == Kind::tuple) // a frozenset
    return plain ? instance(type.type(), plain.get()) : nullptr;
  Owned result(instance(type.type()));
  Owned maxlen(further ? Py_XNewRef(PyDict_GetItemString(further, "maxlen")) : nullptr);
  if (maxlen && PyDict_DelItemString(further, "maxlen"))
    return nullptr;
  const Owned args(PyTuple_Pack(maxlen ? 2 : 1, plain.get(), maxlen.get()));
  if (!result || !args || class_in_c(type.type())->tp_init(result.get(), args.get(), nullptr))
    return nullptr;
  return result.release();
}

PyObject *mapping(const ContainerType &type, Children &children) {
  const bool is_dict = type.form() != Form::mapping;
  Owned result(is_dict && type.type() != &PyDict_Type ? instance(type.type()) : PyDict_New());
  const auto set = type.form() == Form::ordered ? PyODict_SetItem : PyDict_SetItem;
  for (std::size_t i = 0; result && i < children.size(); i += 2)
    if (set(result.get(), children[i].get(), children[i + 1].get()))
      return nullptr;
  if (!result || is_dict)
    return result.release();
  return type.type() == &PyDictProxy_Type ? PyDictProxy_New(result.get())
                                          : PyObject_CallOneArg(object(type.type()), result.get());
}

PyObject *cannot_be_made(PyTypeObject *type) {
  PyErr_Format(PyExc_TypeError, "a %s can't be made again from its fields", type->tp_name);
  return nullptr;
}

PyObject *record(const ContainerType &type, Children &children) {
  PyTypeObject *of = type.type();
  if (of == &PySlice_Type || of == &PyRange_Type) {
    const Owned args = tuple_of(children);
    return args ? PyObject_CallObject(object(of), args.get()) : nullptr;
  }
  if (PyType_IsSubtype(of, known().partial)) {
    if (!children[0] || !children[1] || !children[2])
      return cannot_be_made(of);
    const Owned func(PyTuple_Pack(1, children[0].get()));
    const Owned args(func ? PySequence_Concat(func.get(), children[1].get()) : nullptr);
    return args ? PyObject_Call(object(of), args.get(), children[2].get()) : nullptr;
  }
  if (!can_be_made(type))
    return cannot_be_made(of);
  Owned result(instance(of));
  for (std::size_t i = 0; result && i < children.size(); ++i)
    // Past a frozen class's own __setattr__, as its __init__ does.
    if (children[i] && PyObject_GenericSetAttr(result.get(), type.fields()[i], children[i].get()))
      return nullptr;
  return result.release();
}

PyObject *custom(const ContainerType &type, Children &children) {
  const Owned items = list_of(children, 1);
  return items ? type.together(items.get(), children[0].get()) : nullptr;
}

PyObject *bare(const ContainerType &type, Children &children, PyObject *further) {
  switch (type.form()) {
  case Form::tuple:
    return tuple(type.type(), children);
  case Form::list:
    return list(type.type(), children);
  case Form::sequence:
    return sequence(type, children, further);
  case Form::dict:
  case Form::ordered:
  case Form::mapping:
    return mapping(type, children);
  case Form::record:
    return record(type, children);
  case Form::typed:
  case Form::attributed:
    return Py_NewRef(children[0].get());
  case Form::custom:
    break;
  }
  return custom(type, children);
}

} // namespace

PyObject *put_together(const ContainerType &type, Children &children, PyObject *further) {
  Owned result(bare(type, children, further));
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t place = 0; result && further && PyDict_Next(further, &place, &name, &value);)
    if (PyObject_GenericSetAttr(result.get(), name, value))
      return nullptr;
  return result.release();
}

bool can_be_made(const ContainerType &type) {
  if (type.form() == Form::mapping)
    return type.type() == &PyDictProxy_Type;
  PyTypeObject *base = class_in_c(type.type());
  return type.form() != Form::record || base == type.type() || base == &PyBaseObject_Type;
}

} // namespace tracehost::python
