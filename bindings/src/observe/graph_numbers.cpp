#include "observe/graph_numbers.h"

#include "base/forget_error.h"
#include "guards/graph.h"
#include "numbers/traced_number.h"

#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

namespace tracehost::python {

Owned without_graph_numbers(PyObject *value, int depth) {
  constexpr int deepest = 20;
  if (is_traced_number(value))
    return Owned(number_of(THPVariable_Unpack(value)));
  if (depth > deepest)
    return Owned();
  if (PyTuple_CheckExact(value)) {
    Owned made;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value); ++i) {
      Owned item = without_graph_numbers(PyTuple_GET_ITEM(value, i), depth + 1);
      if (item && !made) {
        const Owned list(PySequence_List(value));
        made = Owned(list ? PyList_AsTuple(list.get()) : nullptr);
      }
      if (item && made)
        PyTuple_SetItem(made.get(), i, item.release());
    }
    return made;
  }
  if (PyList_CheckExact(value)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); ++i)
      if (Owned item = without_graph_numbers(PyList_GET_ITEM(value, i), depth + 1))
        PyList_SetItem(value, i, item.release());
  } else if (PyDict_CheckExact(value)) {
    const Owned keys(PyDict_Keys(value));
    for (Py_ssize_t i = 0; keys && i < PyList_GET_SIZE(keys.get()); ++i) {
      PyObject *item = PyDict_GetItemWithError(value, PyList_GET_ITEM(keys.get(), i));
      if (const Owned made = item ? without_graph_numbers(item, depth + 1) : Owned())
        PyDict_SetItem(value, PyList_GET_ITEM(keys.get(), i), made.get());
    }
  }
  forget_error();
  return Owned();
}

void replace_keys(PyObject *dict) {
  std::vector<std::pair<Owned, Owned>> traced; // with their values
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(dict, &at, &key, &value);)
    if (is_traced_number(key))
      traced.emplace_back(Owned(Py_NewRef(key)), Owned(Py_NewRef(value)));
  for (const auto &[old, kept] : traced) {
    const Owned number(number_of(THPVariable_Unpack(old.get())));
    if (number && write(Place::entries, old.get(), -1, dict, nullptr))
      write(Place::entries, number.get(), -1, dict, kept.get());
    forget_error();
  }
}

} // namespace tracehost::python
