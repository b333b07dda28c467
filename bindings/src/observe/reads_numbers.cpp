#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "numbers/traced_number.h"
#include "observe/reads.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <exception>

/// Reads: what a number that the body has read from a tensor can't answer. Such a number says by
/// `__class__` and isinstance() that it is an int, a float or a bool. `type(n)` is its own class
/// all the same, and `n is True` is false: code that is not converted would go another way than
/// eager.
///
///     if type(n) is int: ...     identify(TracedNumber, int)   rejected
///     TABLE[type(n)]             an item of a dict with int    rejected
///     type(n) is list            false for each number         as eager
///
/// Code of Python's library and of torch is let be: copy and pytree ask for a type to find nothing.

namespace tracehost::python {
namespace {

bool is_type_of_number(PyObject *object) {
  return object == reinterpret_cast<PyObject *>(&PyLong_Type) ||
         object == reinterpret_cast<PyObject *>(&PyFloat_Type) ||
         object == reinterpret_cast<PyObject *>(&PyBool_Type) || is_traced_number_class(object);
}

/// Whether a list, tuple, set or dict holds a type of numbers: else none finds anything there.
bool holds_type_of_number(PyObject *container) {
  if (PyTuple_Check(container) || PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(container); ++i)
      if (is_type_of_number(PySequence_Fast_ITEMS(container)[i]))
        return true;
    return false;
  }
  if (!PyDict_Check(container) && !PyAnySet_Check(container))
    return true;
  bool found = false;
  for (PyTypeObject *type : {&PyLong_Type, &PyFloat_Type, &PyBool_Type}) {
    auto *key = reinterpret_cast<PyObject *>(type);
    found |= (PyDict_Check(container) ? PyDict_Contains(container, key)
                                      : PySet_Contains(container, key)) == 1;
  }
  forget_error();
  return found;
}

/// Requires: trace::has_dynamic_sizes().
void check_bound(const at::Tensor &t, std::int64_t dimension, std::int64_t index) {
  if (dimension >= t.dim() || (index >= -t.size(dimension) && index < t.size(dimension)))
    return;
  try {
    if (const auto size = trace::traced_size(t, dimension))
      trace::specialize_size(*size, "an index past the end");
  } catch (const std::exception &) {
    forget_exception(); // the end of the body raises again
  }
}

/// CPython handles no C++ exception here, so the end of the body raises again.
void reject_read(const std::string &message) {
  try {
    trace::reject(trace::Rejection::value_read, message);
  } catch (const std::exception &) {
    forget_exception();
  }
}

bool is_no_number(PyObject *object) { return is_tensor(object) && !is_traced_number(object); }

/// `library`: the code is none that the user can change.
void reject_identity(const char *what, const char *asked, bool library) {
  reject_read(fmt::format(
      "{} at {} asks {}, and the side of an `if` or the iterations of a loop that are part of the "
      "graph decide that. {}",
      what, text(user_line()), asked,
      library ? "Pass a tensor of its own there: t.clone()."
              : "Note it in a bool variable where the tensor is assigned, and ask that."));
}

} // namespace

/// torch takes a list with a tensor for a tuple, and a number of the graph is one. Converted code
/// has made a tensor of the list.
void Reads::check_index(PyObject *list) {
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i)
    if (is_traced_number(PyList_GET_ITEM(list, i)))
      return reject_read(
          "a list with a number that the body has read from a tensor is an index at " +
          text(user_line()) +
          ", in code that is not converted. Make a tensor of it: torch.tensor(list).");
}

/// torch rejects an int past the end before any op, and the body may catch the IndexError: with
/// another size the element is there.
void Reads::check_bounds(PyObject *tensor, PyObject *key) {
  if (!trace::recording() || !trace::has_dynamic_sizes() || is_traced_number(tensor))
    return;
  const at::Tensor &t = THPVariable_Unpack(tensor);
  const bool several = PyTuple_Check(key);
  std::int64_t dimension = 0;
  for (Py_ssize_t i = 0; i < (several ? PyTuple_GET_SIZE(key) : 1); ++i) {
    PyObject *part = several ? PyTuple_GET_ITEM(key, i) : key;
    if (part == Py_None)
      continue;
    if (!PyLong_CheckExact(part) && !PySlice_Check(part))
      return; // an op says how many dimensions it stands for
    if (PyLong_CheckExact(part))
      check_bound(t, dimension, PyLong_AsLongLong(part));
    ++dimension;
  }
  forget_error(); // of an int past 64 bits
}

void Reads::reject_number(const char *what, const char *instead) {
  if (trace::recording() && !is_library(origin_of(frame_->code)))
    reject_read(fmt::format("{} of a number that the body has read from a tensor is asked for at "
                            "{}, in code that is not converted. There the number is of a class "
                            "of its own. {}, or convert the code (autograph.convert).",
                            what, text(user_line()), instead));
}

void Reads::reject_type() { reject_number("type()", "Ask isinstance(n, int)"); }

/// `a is b`. The results of a staged block are new tensors, where eager has what went in.
void Reads::check_identity(PyObject *a, PyObject *b) {
  if ((is_traced_number(a) && PyBool_Check(b)) || (is_traced_number(b) && PyBool_Check(a)))
    reject_number("the identity", "Ask bool(n)");
  check_types(a, b);
  if (a != b && is_no_number(a) && is_no_number(b) && trace::recording() &&
      !is_ours(frame_->globals) && trace::may_be_one(THPVariable_Unpack(a), THPVariable_Unpack(b)))
    reject_identity("`is`", "whether two tensors are one", is_library(origin_of(frame_->code)));
}

/// `id(t)`, `{t}`, `table[t]`: the same of a tensor alone, which is then compared with any other.
void Reads::check_hash(PyObject *object) {
  if (is_no_number(object) && trace::recording() && !is_ours(frame_->globals) &&
      trace::is_of_block(THPVariable_Unpack(object)))
    reject_identity("a set, a dict or id()", "which object a tensor is",
                    is_library(origin_of(frame_->code)));
}

/// `a == b`.
void Reads::check_types(PyObject *a, PyObject *b) {
  if ((is_traced_number_class(a) && is_type_of_number(b)) ||
      (is_traced_number_class(b) && is_type_of_number(a)))
    reject_type();
}

/// `element in container`, `container[element]`.
void Reads::check_lookup(PyObject *element, PyObject *container) {
  if (is_traced_number_class(element) && holds_type_of_number(container))
    reject_type();
}

/// `type(n).__name__`, `type(n)(3)`, `issubclass(type(n), int)`.
void Reads::check_use_of_type(PyObject *object) {
  if (is_traced_number_class(object))
    reject_type();
}

} // namespace tracehost::python
