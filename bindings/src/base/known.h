#pragma once

#include <Python.h>

/// Names and types that the walk of objects asks for again and again.

namespace tracehost::python {

/// Interned names and borrowed types. On the heap and never freed: no Python object lives in a C++
/// static when the interpreter goes.
struct Known {
  PyObject *parameters, *buffers, *modules; ///< `_parameters` ...: where an nn.Module keeps things
  PyObject *module_name;                    ///< `__module__`
  PyObject *slots, *dict;                   ///< `__slots__`, `__dict__`
  PyTypeObject *nn_module;                  ///< torch.nn.Module
  PyTypeObject *partial;                    ///< functools.partial
  PyTypeObject *deque, *defaultdict;        ///< of collections
  PyTypeObject *lru_cache;                  ///< of what functools.lru_cache makes
  PyTypeObject *enum_type;                  ///< enum.EnumMeta, of which classes of members are
  PyTypeObject *simple_namespace;           ///< types.SimpleNamespace: std, but used as plain data
  PyTypeObject *string_io;                  ///< io.StringIO
};

/// Requires: GIL held. Made at the first call, which needs `torch` to be imported.
const Known &known();

/// The class of traced numbers (numbers/traced_number.h), borrowed; null until the package has set
/// it. It lives as long as the package.
PyTypeObject *traced_number_class();
void set_traced_number_class(PyTypeObject *type);
inline bool is_traced_number(PyObject *object) {
  return traced_number_class() && Py_TYPE(object) == traced_number_class();
}
/// Whether it is their class: what `type(n)` gives in code that is not converted.
inline bool is_traced_number_class(PyObject *object) {
  return traced_number_class() && object == reinterpret_cast<PyObject *>(traced_number_class());
}

/// Whether it is a torch.Tensor. Runs no user code, unlike THPVariable_Check.
bool is_tensor(PyObject *object);
/// Whether it is a tensor without data, of a trace or branch that runs without data.
bool is_fake_tensor(PyObject *object);
/// torch.Tensor; borrowed.
PyTypeObject *tensor_class();
/// Whether attributes of such an instance are looked at: an instance of a class that Python code
/// makes. No class, module or tensor, and nothing by which torch finds its operators.
bool has_user_attributes(PyTypeObject *type);

/// Whether the value has no parts and no path leads through it. The type alone decides.
inline bool is_plain(PyTypeObject *type, PyObject *value) {
  return value == Py_None || type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyUnicode_Type || type == &PyBool_Type || type == &PyBytes_Type ||
         type == &PyCFunction_Type;
}

} // namespace tracehost::python
