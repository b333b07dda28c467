#include "guards/trace_history.h"

namespace tracehost::python {

void TraceHistory::note(const std::string &path, PyObject *before) {
  if (PyLong_CheckExact(before) || PyFloat_CheckExact(before))
    first_.try_emplace(path, Owned(Py_NewRef(before)));
  for (Py_ssize_t i = 0; PyTuple_CheckExact(before) && i < PyTuple_GET_SIZE(before); ++i)
    note(path + "[" + std::to_string(i) + "]", PyTuple_GET_ITEM(before, i));
}

bool TraceHistory::varies(const std::string &path, PyObject *value) const {
  const auto found = first_.find(path);
  if (found == first_.end())
    return false;
  PyObject *first = found->second.get();
  const bool same =
      Py_TYPE(first) == Py_TYPE(value) && PyObject_RichCompareBool(first, value, Py_EQ) == 1;
  return !same;
}

} // namespace tracehost::python
