#include "user_type.h"

#include "atoms.h"
#include "environment/known.h"
#include "errors.h"

#include <fmt/format.h>
#include <torch/csrc/Exceptions.h>

namespace tracehost::python {
namespace {

/// Interned, never freed.
struct Names {
  PyObject *type, *is_subtype_of, *placeholder_value;
};

const Names &names() {
  static const Names *const made = new Names{
      PyUnicode_InternFromString("__tracehost_type__"), PyUnicode_InternFromString("is_subtype_of"),
      PyUnicode_InternFromString("placeholder_value")}; // guarded by the GIL
  return *made;
}

/// Compares itself, as tf's trace types do.
bool is_trace_type(PyObject *type) {
  return _PyType_Lookup(Py_TYPE(type), names().is_subtype_of) != nullptr;
}

/// An ordinary exception of a user's code counts as "no"; others stay set for the caller to find.
bool answer(int result) {
  if (result < 0 && PyErr_ExceptionMatches(PyExc_Exception))
    PyErr_Clear();
  return result == 1;
}

Owned call(PyObject *object) { return Owned(PyObject_CallMethodNoArgs(object, names().type)); }

/// Raises a SignatureError; what was raised, if anything, is its cause.
[[noreturn]] void refuse(PyObject *object, const std::string &reason) {
  PyObject *type = nullptr, *cause = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &cause, &traceback);
  PyErr_NormalizeException(&type, &cause, &traceback);
  if (cause && traceback)
    PyException_SetTraceback(cause, traceback);
  PyErr_SetString(
      errors().signature,
      fmt::format("{}.__tracehost_type__() {}", Py_TYPE(object)->tp_name, reason).c_str());
  if (cause) {
    PyObject *own_type = nullptr, *own = nullptr, *own_traceback = nullptr;
    PyErr_Fetch(&own_type, &own, &own_traceback);
    PyErr_NormalizeException(&own_type, &own, &own_traceback);
    PyException_SetCause(own, Py_NewRef(cause));
    PyErr_Restore(own_type, own, own_traceback);
  }
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(traceback);
  rethrow();
}

/// `ValueError: no such kind`, of the error that is set and stays set.
std::string error_text() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const Owned words(PyObject_Str(value));
  const std::string text =
      fmt::format("{}: {}", reinterpret_cast<PyTypeObject *>(type)->tp_name, utf8(words.get()));
  PyErr_Restore(type, value, traceback);
  return text;
}

} // namespace

bool has_user_type(PyTypeObject *type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && _PyType_Lookup(type, names().type);
}

Owned user_type(PyObject *object) {
  Owned type = call(object);
  if (!type) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
      rethrow();
    refuse(object, "raised " + error_text());
  }
  if (is_tensor(type.get()))
    refuse(object, "returned a tensor, which has no equality. Return a hashable value.");
  if (PyObject_Hash(type.get()) == -1 && PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
      rethrow();
    refuse(object, fmt::format("returned a {}, which is not hashable ({}). Return a hashable "
                               "value, or an object with is_subtype_of, __eq__ and __hash__.",
                               Py_TYPE(type.get())->tp_name, error_text()));
  }
  return type;
}

bool same_user_type(PyObject *a, PyTypeObject *a_of, PyObject *b, PyTypeObject *b_of) {
  if (a == b && (a_of == b_of || is_trace_type(a)))
    return true;
  return Py_TYPE(a) == Py_TYPE(b) && (a_of == b_of || is_trace_type(a)) &&
         answer(PyObject_RichCompareBool(a, b, Py_EQ));
}

bool serves(PyObject *type, PyTypeObject *made_of, PyObject *candidate) {
  PyTypeObject *of = Py_TYPE(candidate);
  if (!has_user_type(of) || (of != made_of && !is_trace_type(type)))
    return false;
  const Owned held(Py_NewRef(candidate)), held_type(Py_NewRef(type));
  const Owned given = call(candidate);
  if (!given) {
    answer(-1);
    return false;
  }
  if (same_user_type(type, made_of, given.get(), of))
    return true;
  if (PyErr_Occurred() || !is_trace_type(given.get()))
    return false;
  const Owned result(PyObject_CallMethodOneArg(given.get(), names().is_subtype_of, type));
  return answer(result ? PyObject_IsTrue(result.get()) : -1);
}

PyObject *placeholder(PyObject *object) {
  const Owned type = user_type(object);
  if (!is_trace_type(type.get()) || !_PyType_Lookup(Py_TYPE(type.get()), names().placeholder_value))
    return nullptr;
  PyObject *made = PyObject_CallMethodOneArg(type.get(), names().placeholder_value, Py_None);
  if (!made)
    rethrow();
  return made;
}

} // namespace tracehost::python
