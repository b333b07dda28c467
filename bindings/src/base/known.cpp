#include "base/known.h"

#include "base/forget_error.h"
#include "base/lazy.h"
#include "base/object.h"
#include "base/origin.h"
#include "shapes/fake_tensor.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace tracehost::python {

namespace {

/// `module.name` as a type, or null. The module is imported already or cheap to import.
PyTypeObject *type_of(const char *module, const char *name) {
  Owned imported(PyImport_ImportModule(module));
  PyObject *found = imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
  forget_error();
  return found && PyType_Check(found) ? reinterpret_cast<PyTypeObject *>(found) : nullptr;
}

Known make_known() {
  Known k{};
  k.parameters = PyUnicode_InternFromString("_parameters");
  k.buffers = PyUnicode_InternFromString("_buffers");
  k.modules = PyUnicode_InternFromString("_modules");
  k.module_name = PyUnicode_InternFromString("__module__");
  k.slots = PyUnicode_InternFromString("__slots__");
  k.dict = PyUnicode_InternFromString("__dict__");
  k.nn_module = type_of("torch.nn", "Module");
  k.partial = type_of("functools", "partial");
  k.deque = type_of("collections", "deque");
  k.defaultdict = type_of("collections", "defaultdict");
  k.lru_cache = type_of("functools", "_lru_cache_wrapper");
  k.enum_type = type_of("enum", "EnumMeta");
  k.simple_namespace = type_of("types", "SimpleNamespace");
  k.string_io = type_of("io", "StringIO");
  return k;
}

} // namespace

const Known &known() {
  static constinit Lazy<Known> made;
  return made([] {
    const KeepError keep;
    const Known fresh = make_known();
    forget_error();
    return fresh;
  });
}

namespace {
PyTypeObject *number_class = nullptr;
}

PyTypeObject *traced_number_class() { return number_class; }
void set_traced_number_class(PyTypeObject *type) { number_class = type; }

bool is_tensor(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  if (is_traced_number(object)) // a number
    return false;
  return type == reinterpret_cast<PyTypeObject *>(THPVariableClass) ||
         type == reinterpret_cast<PyTypeObject *>(ParameterClass) ||
         (THPVariableClass &&
          PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(THPVariableClass)));
}

bool is_fake_tensor(PyObject *object) {
  return THPVariable_Check(object) && shapes::is_fake_tensor(THPVariable_Unpack(object));
}

PyTypeObject *tensor_class() { return reinterpret_cast<PyTypeObject *>(THPVariableClass); }

namespace {

/// In a dict of the object's, or in slots that the class names. A type of C code may do neither.
bool keeps_attributes(PyTypeObject *type) {
#ifdef Py_TPFLAGS_MANAGED_DICT
  if (type->tp_flags & Py_TPFLAGS_MANAGED_DICT)
    return true;
#endif
  if (type->tp_dictoffset != 0)
    return true;
  for (Py_ssize_t i = 0; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    const auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i));
    if (base->tp_dict && PyDict_GetItemWithError(base->tp_dict, known().slots))
      return true;
  }
  return false;
}

} // namespace

bool has_user_attributes(PyTypeObject *type) {
  if (type == known().simple_namespace)
    return true;
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !type->tp_dict ||
      (type->tp_flags & Py_TPFLAGS_TYPE_SUBCLASS) || PyType_IsSubtype(type, &PyModule_Type) ||
      (tensor_class() && PyType_IsSubtype(type, tensor_class())))
    return false;
  if (!keeps_attributes(type))
    return false;
  PyObject *module = PyDict_GetItemWithError(type->tp_dict, known().module_name);
  if (!is_library(origin_of_type(type)))
    return true;
  const std::string_view text = utf8(module);
  for (const std::string_view part : {"torch._C", "torch._ops", "torch._library", "torch._dynamo",
                                      "tracehost", "_tracehost", "enum", "_io"})
    if (text.starts_with(part))
      return false;
  return true;
}

} // namespace tracehost::python
