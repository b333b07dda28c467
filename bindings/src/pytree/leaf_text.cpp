#include "base/forget_error.h"
#include "base/known.h"
#include "base/object.h"
#include "pytree/leaf.h"
#include "signature/native_atoms.h"

#include <Python.h>

#include <cstring>
#include <string>

/// Leaves as signatures and messages show them.

namespace tracehost::python {
namespace {

std::string repr(PyObject *object) {
  if (PyUnicode_CheckExact(object) &&
      PyUnicode_GET_LENGTH(object) > static_cast<Py_ssize_t>(kLongestText)) {
    Owned head(PyUnicode_Substring(object, 0, kLongestText - 5));
    Owned text(head ? PyObject_Repr(head.get()) : nullptr);
    return text ? utf8(text.get()) + std::string("...") : "'...'";
  }
  Owned text(PyObject_Repr(object));
  return text ? utf8(text.get()) : std::string("<") + Py_TYPE(object)->tp_name + ">";
}

const char *short_name(PyTypeObject *type) {
  const char *dot = std::strrchr(type->tp_name, '.');
  return dot ? dot + 1 : type->tp_name;
}

std::string function_text(PyObject *function) {
  auto *made = reinterpret_cast<PyFunctionObject *>(function);
  auto *code = reinterpret_cast<PyCodeObject *>(made->func_code);
  std::string file = utf8(code->co_filename);
  file.erase(0, file.rfind('/') + 1);
  return std::string("<function ") + utf8(made->func_qualname) + " at " + file + ":" +
         std::to_string(code->co_firstlineno) + ">";
}

std::string object_text(PyObject *object) {
  if (PyFunction_Check(object))
    return function_text(object);
  if (PyType_Check(object))
    return std::string("<class ") + short_name(reinterpret_cast<PyTypeObject *>(object)) + ">";
  if (PyModule_Check(object)) {
    Owned name(PyModule_GetNameObject(object));
    return std::string("<module ") + utf8(name.get()) + ">";
  }
  if (is_tensor(object) || is_traced_number(object))
    return "<tensor>";
  if (is_enum_member(object)) {
    Owned name(PyObject_GetAttrString(object, "_name_"));
    return std::string(short_name(Py_TYPE(object))) + "." + utf8(name.get());
  }
  if (PyCFunction_Check(object))
    return std::string("<built-in ") +
           reinterpret_cast<PyCFunctionObject *>(object)->m_ml->ml_name + ">";
  const bool heap = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  if (!heap && Py_TYPE(object)->tp_repr && Py_TYPE(object)->tp_repr != PyBaseObject_Type.tp_repr &&
      !PyDict_Check(object) && !PyList_Check(object) && !PyTuple_Check(object))
    return repr(object); // dtype, layout, memory_format, generator: their own C code
  return std::string("<") + short_name(Py_TYPE(object)) + " object>";
}

} // namespace

std::string PyAtom::text() const {
  if (!python_alive())
    return "<object>";
  const WithGil gil;
  const KeepError keep;
  std::string result;
  switch (compare_) {
  case Compare::identity:
    result = object_text(object_);
    break;
  case Compare::weak_identity: {
    PyObject *object = referent(object_);
    result = object ? object_text(object) : "<object that is gone>";
    break;
  }
  case Compare::equality:
    result = PyCFunction_Check(object_) ? object_text(object_) : repr(object_);
    break;
  case Compare::method: {
    PyObject *self = referent(object_);
    result = std::string("<method of ") + (self ? short_name(Py_TYPE(self)) : "an object gone") +
             (PyFunction_Check(function_) ? ": " + function_text(function_) : std::string()) + ">";
    break;
  }
  case Compare::of_class:
    result =
        std::string("<") + short_name(reinterpret_cast<PyTypeObject *>(function_)) + " object>";
    break;
  case Compare::typed:
    result = std::string(short_name(reinterpret_cast<PyTypeObject *>(function_))) + "[" +
             repr(object_) + "]";
    break;
  }
  forget_error();
  return shortened(std::move(result));
}

} // namespace tracehost::python
