#include "base/kinds.h"

#include "base/forget_error.h"
#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/reads_only.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tracehost::python {

bool is_deque(PyObject *value) { return known().deque && PyObject_TypeCheck(value, known().deque); }

bool is_collection(PyObject *value) {
  return PyDict_Check(value) || PyList_Check(value) || PyTuple_Check(value) ||
         PyAnySet_CheckExact(value) || is_deque(value);
}

bool is_opaque(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  if (changes_unseen(value))
    return true;
  return !has_user_attributes(type) && !is_fixed(type) && !PyModule_Check(value) &&
         !PyType_Check(value);
}

namespace {

/// Types of C code, by the start of their names.
constexpr std::string_view kFixed[] = {
    // Immutable.
    "builtin_function_or_method", "method", "wrapper_", "method-wrapper", "classmethod_descriptor",
    "getset_descriptor", "member_descriptor", "property", "classmethod", "staticmethod", "code",
    "complex", "range", "slice", "ellipsis", "NotImplementedType", "types.", "typing.", "re.",
    "_sre.", "datetime.", "decimal.", "_decimal.", "fractions.", "zoneinfo.", "_struct.", "Struct",
    "PyCapsule", "operator.", "_operator.", "numpy.", "mappingproxy", "dict_keys", "dict_values",
    "dict_items", "weakref", "ReferenceType", "uuid.", "enum.", "_abc",
    // State that ops read, or that is compared otherwise.
    "torch", "pybind11", "functools.",
    // What waits.
    "_thread.lock", "_thread.RLock", "_multiprocessing.SemLock",
    // Whose value is asked for again.
    "_contextvars.ContextVar", "ContextVar",
    // Where a trace prints.
    "_io.",
    // Generators of random numbers. A warning reports their draws.
    "_random."};

/// `__module__` of a class; pybind11 gives types names without it. Empty if there is none.
std::string_view module_of(PyTypeObject *type) {
  PyObject *module =
      type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, known().module_name) : nullptr;
  forget_error();
  return module && PyUnicode_Check(module) ? std::string_view(PyUnicode_AsUTF8(module))
                                           : std::string_view();
}

} // namespace

bool changes_unseen(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  // How torch calls a custom op: a dataclass without a hash, which is replaced as a whole.
  const bool of_op = module_of(type) == "torch._ops";
  return (type->tp_hash == PyObject_HashNotImplemented && !of_op) || PyIter_Check(value) ||
         is_of_a_thread(value);
}

bool is_users_tensor_class(PyTypeObject *type) {
  return type != tensor_class() && PyType_IsSubtype(type, tensor_class()) &&
         !is_library(origin_of_type(type));
}

bool is_own_type(PyTypeObject *type) {
  return std::string_view(type->tp_name).starts_with("tracehost.") ||
         module_of(type).starts_with("tracehost");
}

bool is_fixed(PyTypeObject *type) {
  const std::string_view name = type->tp_name, module = module_of(type);
  if (module.starts_with("torch") || module.starts_with("_tracehost") || is_own_type(type) ||
      is_reads_only(type))
    return true;
  return std::any_of(std::begin(kFixed), std::end(kFixed),
                     [&](std::string_view start) { return name.starts_with(start); });
}

bool has_inner_dict(PyTypeObject *type) {
  return type == &PyDictKeys_Type || type == &PyDictValues_Type || type == &PyDictItems_Type ||
         type == &PyDictProxy_Type || type == known().lru_cache;
}

PyObject *inner_dict(PyObject *object) {
  struct Search {
    PyObject *own, *found;
  } search{nullptr, nullptr};
  if (PyObject **own = _PyObject_GetDictPtr(object))
    search.own = *own; // its attributes
  const auto visit = [](PyObject *part, void *into) {
    auto *s = static_cast<Search *>(into);
    if (!PyDict_Check(part) || part == s->own)
      return 0;
    s->found = part;
    return 1;
  };
  if (has_inner_dict(Py_TYPE(object)) && Py_TYPE(object)->tp_traverse)
    Py_TYPE(object)->tp_traverse(object, visit, &search);
  return search.found;
}

namespace {

/// `zip`, `list_iterator`, `itertools.chain`; no generator, whose code is observed.
bool is_iterator_of_c(PyObject *value) {
  const std::string_view name = Py_TYPE(value)->tp_name;
  return PyIter_Check(value) && !PyGen_CheckExact(value) && !PyCoro_CheckExact(value) &&
         (name.starts_with("itertools.") ||
          (name.find('.') == name.npos && !(Py_TYPE(value)->tp_flags & Py_TPFLAGS_HEAPTYPE)));
}

/// How the collector finds what C code finds in the object; null: C code does not look into it.
traverseproc traversal_of(PyObject *value) {
  PyTypeObject *type = Py_TYPE(value);
  for (PyTypeObject *base : {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type})
    if (PyObject_TypeCheck(value, base)) // without the attributes of a class of Python
      return base->tp_traverse;
  const bool is_view = has_inner_dict(type) && type != known().lru_cache;
  return is_view || type == known().simple_namespace || PyFrozenSet_Check(value) ||
                 is_deque(value) || is_iterator_of_c(value)
             ? type->tp_traverse
             : nullptr;
}

} // namespace

std::vector<PyObject *> parts_of(PyObject *object, bool all) {
  if (!traversal_of(object))
    return {object};
  struct Parts {
    bool all;
    std::vector<PyObject *> found;
    std::unordered_set<PyObject *> seen;
  } parts{all, {object}, {object}};
  const auto visit = [](PyObject *part, void *into) {
    auto *p = static_cast<Parts *>(into);
    if ((p->all || traversal_of(part)) && p->seen.insert(part).second)
      p->found.push_back(part);
    return 0;
  };
  for (std::size_t i = 0; i < parts.found.size(); ++i)
    if (const traverseproc traverse = traversal_of(parts.found[i]))
      traverse(parts.found[i], visit, &parts);
  return std::move(parts.found);
}

bool may_hold(PyObject *key) {
  if (PyTuple_CheckExact(key)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); ++i)
      if (may_hold(PyTuple_GET_ITEM(key, i)))
        return true;
    return false;
  }
  return Py_TYPE(key)->tp_weaklistoffset != 0;
}

bool is_of_a_thread(PyObject *value) {
  const PyTypeObject *type = Py_TYPE(value);
  while (type && std::string_view(type->tp_name) != "_thread._local")
    type = type->tp_base;
  return type != nullptr;
}

bool may_be_another(PyObject *object) {
  const PyTypeObject *type = Py_TYPE(object);
  if (!has_user_attributes(Py_TYPE(object)) || PyType_Check(object) || !type->tp_weaklistoffset ||
      type->tp_richcompare != PyBaseObject_Type.tp_richcompare ||
      type->tp_hash != PyBaseObject_Type.tp_hash || is_collection(object) ||
      is_of_a_thread(object) || PyObject_TypeCheck(object, known().nn_module))
    return false;
  const std::string_view module = module_of(Py_TYPE(object));
  return !module.empty() && module != "torch" && !module.starts_with("torch.");
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

std::string foreign_generator(PyObject *self) {
  if (!self || PyModule_Check(self))
    return {};
  for (const PyTypeObject *type = Py_TYPE(self); type; type = type->tp_base) {
    const std::string_view name = type->tp_name;
    if (name == "_random.Random")
      return "random";
    if (name == "numpy.random.mtrand.RandomState" || name == "numpy.random._generator.Generator")
      return "numpy.random";
  }
  return {};
}

bool is_getter(PyObject *callable) {
  const std::string_view name = Py_TYPE(callable)->tp_name;
  return name == "operator.attrgetter" || name == "operator.itemgetter";
}

bool is_tuple_field(PyObject *descriptor) {
  return std::string_view(Py_TYPE(descriptor)->tp_name).ends_with("._tuplegetter");
}

bool is_stream(PyObject *module, PyObject *name) {
  const std::string_view text = utf8(name);
  const char *of = PyModule_GetName(module);
  forget_error();
  return (text == "stdout" || text == "stderr" || text == "stdin") && of &&
         std::string_view(of) == "sys";
}

} // namespace tracehost::python
