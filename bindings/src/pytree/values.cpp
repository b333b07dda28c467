#include "pytree/values.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"

#include <torch/csrc/Device.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <type_traits>
#include <utility>
#include <variant>

namespace tracehost::python {
namespace {

struct ToPython {
  Owned operator()(std::monostate) const { return Owned(Py_NewRef(Py_None)); }
  Owned operator()(const at::Tensor &t) const { return checked(THPVariable_Wrap(t)); }
  Owned operator()(std::int64_t i) const { return checked(PyLong_FromLongLong(i)); }
  Owned operator()(double d) const { return checked(PyFloat_FromDouble(d)); }
  Owned operator()(bool b) const { return checked(PyBool_FromLong(b)); }
  Owned operator()(const std::string &s) const {
    return checked(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
  }
  Owned operator()(at::ScalarType dtype) const {
    return Owned(Py_NewRef(reinterpret_cast<PyObject *>(torch::getTHPDtype(dtype))));
  }
  Owned operator()(at::Device device) const { return checked(THPDevice_New(device)); }
  Owned operator()(const List &list) const {
    Owned result = checked(PyList_New(static_cast<Py_ssize_t>(list.items.size())));
    for (std::size_t i = 0; i < list.items.size(); ++i)
      PyList_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), to_python(list.items[i]).release());
    return result;
  }
  Owned operator()(const Tuple &tuple) const {
    Owned result = checked(PyTuple_New(static_cast<Py_ssize_t>(tuple.items.size())));
    for (std::size_t i = 0; i < tuple.items.size(); ++i)
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i),
                       to_python(tuple.items[i]).release());
    return result;
  }
  Owned operator()(const Map &map) const {
    Owned result = checked(PyDict_New());
    for (const auto &[key, value] : map.items)
      if (PyDict_SetItem(result.get(), (*this)(key).get(), to_python(value).get()) != 0)
        rethrow();
    return result;
  }
};

[[noreturn]] void reject(PyObject *object, const std::string &what) {
  throw Error(
      fmt::format("{} is a {}, which no tracehost::Value can hold. Return tensors, numbers, "
                  "strings, and lists, tuples and dicts of them.",
                  what, Py_TYPE(object)->tp_name));
}

std::int64_t integer(PyObject *object, const std::string &what) {
  int beyond = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &beyond);
  if (beyond)
    throw Error(fmt::format(
        "{} is an int beyond 64 bits, which std::int64_t cannot hold. Return a float or a string.",
        what));
  return value;
}

template <class Sequence> Value sequence(PyObject *object, const std::string &what) {
  Sequence result;
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  for (Py_ssize_t i = 0; i < size; ++i)
    result.items.push_back(
        from_python(PySequence_Fast_GET_ITEM(object, i), fmt::format("{}[{}]", what, i)));
  return result;
}

Value dict(PyObject *object, const std::string &what) {
  Map result;
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value);) {
    if (!PyUnicode_Check(key))
      throw Error(fmt::format("{} has the key {}; C++ has dicts whose keys are strings.", what,
                              utf8(Owned(PyObject_Repr(key)).get())));
    const std::string name = utf8(key);
    result.items.emplace_back(name, from_python(value, fmt::format("{}['{}']", what, name)));
  }
  return result;
}

/// `names`: the fields of a named tuple or a dataclass, in order.
Value record(PyObject *object, PyObject *names, const std::string &what) {
  Map result;
  const Owned list(PySequence_List(names)); // of a dict: its keys
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject *name = PyList_GET_ITEM(list.get(), i);
    const Owned value = checked(PyObject_GetAttr(object, name));
    result.items.emplace_back(utf8(name),
                              from_python(value.get(), fmt::format("{}.{}", what, utf8(name))));
  }
  return result;
}

} // namespace

Owned to_python(const Value &value) { return std::visit(ToPython{}, value.data()); }

Value from_python(PyObject *object, const std::string &what) {
  if (object == Py_None)
    return {};
  if (THPVariable_Check(object))
    return THPVariable_Unpack(object);
  if (PyBool_Check(object))
    return object == Py_True;
  if (PyLong_CheckExact(object))
    return integer(object, what);
  if (PyFloat_CheckExact(object))
    return PyFloat_AS_DOUBLE(object);
  if (PyUnicode_CheckExact(object))
    return utf8(object);
  if (PyList_CheckExact(object))
    return sequence<List>(object, what);
  if (PyDict_Check(object))
    return dict(object, what);
  if (THPDtype_Check(object))
    return reinterpret_cast<THPDtype *>(object)->scalar_type;
  if (THPDevice_Check(object))
    return reinterpret_cast<THPDevice *>(object)->device;
  for (const char *fields : {"_fields", "__dataclass_fields__"}) {
    const Owned names(PyObject_GetAttrString(object, fields));
    forget_error();
    if (names)
      return record(object, names.get(), what);
  }
  if (PyTuple_Check(object))
    return sequence<Tuple>(object, what);
  reject(object, what);
}

} // namespace tracehost::python
