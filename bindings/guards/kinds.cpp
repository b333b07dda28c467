#include "guards/kinds.h"

#include "guards/gil.h"
#include "guards/known.h"

#include <string_view>

namespace tracehost::python {

bool is_deque(PyObject *value) { return known().deque && PyObject_TypeCheck(value, known().deque); }

bool is_collection(PyObject *value) {
  return PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
         PyAnySet_CheckExact(value) || is_deque(value);
}

bool is_opaque(PyObject *value) {
  return Py_TYPE(value)->tp_hash == PyObject_HashNotImplemented || PyIter_Check(value);
}

bool is_of_a_thread(PyObject *value) {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return name == "_thread._local" || name == "_contextvars.ContextVar" || name == "ContextVar";
}

bool is_value(PyObject *element) {
  if (PyTuple_CheckExact(element)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(element); ++i)
      if (!is_value(PyTuple_GET_ITEM(element, i)))
        return false;
    return true;
  }
  PyTypeObject *type = Py_TYPE(element);
  return is_plain(type, element) || PyComplex_CheckExact(element) || PyType_Check(element) ||
         (type->tp_weaklistoffset == 0 && !PyObject_IS_GC(element) &&
          type->tp_hash != PyObject_HashNotImplemented);
}

bool is_tuple_field(PyObject *descriptor) {
  return std::string_view(Py_TYPE(descriptor)->tp_name).ends_with("._tuplegetter");
}

bool is_stream(PyObject *module, PyObject *name) {
  const std::string_view text = utf8(name);
  const char *of = PyModule_GetName(module);
  PyErr_Clear();
  return (text == "stdout" || text == "stderr" || text == "stdin") && of &&
         std::string_view(of) == "sys";
}

} // namespace tracehost::python
