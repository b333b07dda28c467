#include "guards/elements.h"

#include "base/forget_error.h"
#include "base/kinds.h"
#include "guards/graph.h"

namespace tracehost::python {

bool refill(PyObject *container, PyObject *elements) {
  if (PyList_Check(container))
    return PyList_SetSlice(container, 0, PyList_GET_SIZE(container), elements) == 0;
  const Owned cleared(PyObject_CallMethod(container, "clear", nullptr));
  const char *fill = is_deque(container) ? "extend" : "update";
  return cleared && Owned(PyObject_CallMethod(container, fill, "(O)", elements));
}

bool append(PyObject *container, PyObject *value) {
  if (PyList_Check(container))
    return PyList_Append(container, value) == 0;
  return static_cast<bool>(Owned(PyObject_CallMethod(container, "append", "(O)", value)));
}

Owned rearranged(const std::vector<int> &from, PyObject *before, PyObject *values) {
  Owned made(PyList_New(static_cast<Py_ssize_t>(from.size())));
  Py_ssize_t next = 0;
  for (std::size_t i = 0; made && i < from.size(); ++i) {
    const bool is_new = from[i] < 0;
    if (!is_new && from[i] >= PyList_GET_SIZE(before)) {
      PyErr_SetString(PyExc_RuntimeError, "another thread has changed a list that the call changes "
                                          "while it ran. Give each thread its own.");
      return Owned();
    }
    PyList_SET_ITEM(
        made.get(), static_cast<Py_ssize_t>(i),
        Py_NewRef(is_new ? PyTuple_GET_ITEM(values, next++) : PyList_GET_ITEM(before, from[i])));
  }
  return made;
}

OrderKept::OrderKept(PyObject *before) : places_(PyDict_New()) {
  Py_ssize_t place = 0;
  for (Entries entries(before); places_ && entries.next(); ++place)
    if (const Owned number(PyLong_FromSsize_t(place)); number)
      PyDict_SetItem(places_.get(), entries.key(), number.get());
  forget_error();
}

bool OrderKept::keeps(PyObject *key) {
  PyObject *place = places_ && kept_ ? PyDict_GetItemWithError(places_.get(), key) : nullptr;
  forget_error();
  kept_ = place && PyLong_AsSsize_t(place) > last_;
  if (kept_)
    last_ = PyLong_AsSsize_t(place);
  return kept_;
}

bool rewrite(PyObject *container, const std::vector<int> &from, PyObject *values) {
  const Owned before(PySequence_List(container));
  const Owned after(before ? rearranged(from, before.get(), values) : Owned());
  return after && refill(container, after.get());
}

} // namespace tracehost::python
