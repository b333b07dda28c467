#include "pytree/user_type.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/known.h"
#include "base/lazy.h"
#include "pytree/leaf.h"
#include "signature/native_atoms.h"

#include <fmt/format.h>
#include <torch/csrc/Exceptions.h>

namespace tracehost::python {
namespace {

constexpr const char *kType = "__tracehost_type__";
constexpr const char *kSubtype = "is_subtype_of";
constexpr const char *kJoin = "most_specific_common_supertype";

/// Interned, never freed.
struct Names {
  PyObject *type, *is_subtype_of;
};

const Names &names() {
  static constinit Lazy<Names> made;
  return made([] {
    return Names{PyUnicode_InternFromString(kType), PyUnicode_InternFromString(kSubtype)};
  });
}

/// An ordinary exception of a user's code counts as "no"; others stay set for the caller to find.
bool answer(int result) {
  if (result < 0 && PyErr_ExceptionMatches(PyExc_Exception))
    forget_error();
  return result == 1;
}

Owned call(PyObject *object) { return Owned(PyObject_CallMethodNoArgs(object, names().type)); }

/// `ValueError: no such kind`, of the error that is set and stays set.
std::string error_text() {
  Owned error = take_error();
  const Owned words(PyObject_Str(error.get()));
  std::string text = fmt::format("{}: {}", Py_TYPE(error.get())->tp_name, utf8(words.get()));
  set_error(std::move(error));
  return text;
}

/// Throws where it has no hash; `method` gave it.
void check_hashable(PyObject *object, const char *method, PyObject *type) {
  if (PyObject_Hash(type) != -1 || !PyErr_Occurred())
    return;
  if (!PyErr_ExceptionMatches(PyExc_Exception))
    rethrow();
  reject_user_method(object, method,
                     fmt::format("returned a {}, which is not hashable ({}). Return a hashable "
                                 "value, or an object with is_subtype_of, __eq__ and __hash__.",
                                 Py_TYPE(type)->tp_name, error_text()));
}

} // namespace

void reject_user_method(PyObject *object, const char *name, const std::string &reason) {
  Owned cause = take_error();
  PyErr_SetString(errors().signature,
                  fmt::format("{}.{}() {}", Py_TYPE(object)->tp_name, name, reason).c_str());
  if (cause) {
    Owned own = take_error();
    PyException_SetCause(own.get(), cause.release());
    set_error(std::move(own));
  }
  rethrow();
}

PyObject *user_method(PyObject *object, const char *name) {
  const Owned key(PyUnicode_InternFromString(name));
  PyObject *found = key ? _PyType_Lookup(Py_TYPE(object), key.get()) : nullptr;
  return found == Py_None ? nullptr : found;
}

Owned call_user_method(PyObject *object, const char *name, PyObject *first, PyObject *second) {
  const Owned key(PyUnicode_InternFromString(name));
  Owned result(key ? PyObject_CallMethodObjArgs(object, key.get(), first, second, nullptr)
                   : nullptr);
  if (!result) {
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(errors().base))
      rethrow();
    reject_user_method(object, name, "raised " + error_text());
  }
  return result;
}

std::string shown_result(PyObject *object) {
  if (object == Py_None)
    return "None";
  if (is_tensor(object))
    return "a tensor";
  const KeepError keep;
  const Owned text(PyObject_Repr(object));
  forget_error();
  return fmt::format("{} {}", Py_TYPE(object)->tp_name, shortened(text ? utf8(text.get()) : ""));
}

bool has_user_type(PyTypeObject *type) {
  return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && _PyType_Lookup(type, names().type);
}

bool is_trace_type(PyObject *type) {
  return _PyType_Lookup(Py_TYPE(type), names().is_subtype_of) != nullptr;
}

Owned user_type(PyObject *object) {
  Owned type = call(object);
  if (!type) {
    if (!PyErr_ExceptionMatches(PyExc_Exception))
      rethrow();
    reject_user_method(object, kType, "raised " + error_text());
  }
  if (is_tensor(type.get()))
    reject_user_method(object, kType,
                       "returned a tensor, which has no equality. Return a hashable value.");
  check_hashable(object, kType, type.get());
  return type;
}

bool same_user_type(PyObject *a, PyTypeObject *a_of, PyObject *b, PyTypeObject *b_of) {
  if (a == b && (a_of == b_of || is_trace_type(a)))
    return true;
  return Py_TYPE(a) == Py_TYPE(b) && (a_of == b_of || is_trace_type(a)) &&
         answer(PyObject_RichCompareBool(a, b, Py_EQ));
}

bool is_subtype(PyObject *type, PyObject *of) {
  const Owned result = call_user_method(type, kSubtype, of);
  if (!PyBool_Check(result.get()))
    reject_user_method(
        type, kSubtype,
        fmt::format("returned {}. Return True or False.", shown_result(result.get())));
  return result.get() == Py_True;
}

Owned common_supertype(PyObject *type, PyObject *other) {
  if (!is_trace_type(type) || !is_trace_type(other) || !user_method(type, kJoin))
    return Owned();
  const Owned others = checked(PyList_New(1));
  PyList_SET_ITEM(others.get(), 0, Py_NewRef(other));
  Owned made = call_user_method(type, kJoin, others.get());
  if (made.get() == Py_None)
    return Owned();
  if (is_tensor(made.get()) || !is_trace_type(made.get()))
    reject_user_method(type, kJoin,
                       fmt::format("returned {}. Return a trace type, or None where there is none "
                                   "above both.",
                                   shown_result(made.get())));
  check_hashable(type, kJoin, made.get());
  for (PyObject *below : {type, other})
    if (below != made.get() &&
        !same_user_type(below, Py_TYPE(below), made.get(), Py_TYPE(made.get())) &&
        !is_subtype(below, made.get()))
      reject_user_method(type, kJoin,
                         fmt::format("returned {}, of which {} is no subtype by its is_subtype_of.",
                                     shown_result(made.get()), shown_result(below)));
  return made;
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
  return is_subtype(given.get(), type);
}

} // namespace tracehost::python
