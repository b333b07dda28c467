#include "pytree/container.h"

#include "base/checked.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/known.h"
#include "base/lazy.h"
#include "base/origin.h"
#include "base/unobserved.h"

#include <torch/csrc/Exceptions.h>

#include <structmember.h>

#include <cstring>

namespace tracehost::python {
namespace {

/// Classes and names that are asked for again and again; on the heap and never freed, so that no
/// Python object lives in a C++ static.
struct Special {
  PyTypeObject *defaultdict;
  PyObject *registered; ///< torch.utils._pytree's classes: a dict; null: there are none
  PyObject *dataclass_fields, *attrs_fields;
};

const Special &special() {
  static constinit Lazy<Special> made;
  return made([] {
    const KeepError keep;
    const auto attribute = [](const char *module, const char *name) {
      const Owned imported(PyImport_ImportModule(module));
      PyObject *found = imported ? PyObject_GetAttrString(imported.get(), name) : nullptr;
      forget_error();
      return found;
    };
    return Special{reinterpret_cast<PyTypeObject *>(attribute("collections", "defaultdict")),
                   attribute("torch.utils._pytree", "SUPPORTED_NODES"),
                   PyUnicode_InternFromString("__dataclass_fields__"),
                   PyUnicode_InternFromString("__attrs_attrs__")};
  });
}

/// The class's entry in torch's registry, or null. What Python's own containers are registered with
/// there is no news.
PyObject *registration(PyTypeObject *type) {
  PyObject *registry = special().registered;
  if (!registry || is_library(origin_of_type(type)))
    return nullptr;
  PyObject *found = PyDict_GetItemWithError(registry, reinterpret_cast<PyObject *>(type));
  if (!found)
    forget_error(); // a metaclass that can't be hashed
  return found;
}

bool is_strictly(PyTypeObject *type, PyTypeObject *base) {
  return base && PyType_IsSubtype(type, base);
}

/// dataclasses.fields(), attr.fields(): the names, interned; false if it is neither.
bool names_of_fields(PyTypeObject *type, std::vector<PyObject *> &names) {
  const auto add = [&](PyObject *name) {
    Py_INCREF(name);
    PyUnicode_InternInPlace(&name);
    names.push_back(name);
  };
  if (PyObject *fields = _PyType_Lookup(type, special().dataclass_fields);
      fields && PyDict_Check(fields)) {
    PyObject *name = nullptr, *field = nullptr;
    for (Py_ssize_t place = 0; PyDict_Next(fields, &place, &name, &field);) {
      // Pseudo-fields (ClassVar, InitVar) are in the dict too, marked by another sentinel.
      const Owned kind(PyObject_GetAttrString(field, "_field_type"));
      const Owned mark(kind ? PyObject_GetAttrString(kind.get(), "name") : nullptr);
      forget_error();
      if (PyUnicode_Check(name) && std::strcmp(utf8(mark.get()), "_FIELD") == 0)
        add(name);
    }
    return true;
  }
  PyObject *fields = _PyType_Lookup(type, special().attrs_fields);
  if (!fields || !PyTuple_Check(fields))
    return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(fields); ++i) {
    const Owned name(PyObject_GetAttrString(PyTuple_GET_ITEM(fields, i), "name"));
    forget_error();
    if (name && PyUnicode_Check(name.get()))
      add(name.get());
  }
  return true;
}

void intern(std::vector<PyObject *> &names, std::initializer_list<const char *> texts) {
  for (const char *text : texts)
    names.push_back(PyUnicode_InternFromString(text));
}

/// Whether paths continue from the value as from an object, regardless of what else its class is.
bool is_object(PyObject *object, PyTypeObject *type) {
  return is_enum_member(object) || PyType_Check(object) || is_tensor(object) ||
         is_strictly(type, known().nn_module);
}

} // namespace

// ---- classes ------------------------------------------------------------------------------------

ContainerType::ContainerType(PyTypeObject *type, Form form)
    : PyAtom(reinterpret_cast<PyObject *>(type), Compare::identity), form_(form) {
  attribute_in_c_ = is_strictly(type, known().deque)           ? "maxlen"
                    : is_strictly(type, special().defaultdict) ? "default_factory"
                                                               : nullptr;
  const bool heap = type->tp_flags & Py_TPFLAGS_HEAPTYPE;
  has_more_ = (heap && type->tp_dictoffset != 0) || attribute_in_c_ || type == known().partial ||
              type == known().simple_namespace;
}

ContainerType::ContainerType(PyTypeObject *type, AtomRef compared)
    : PyAtom(reinterpret_cast<PyObject *>(type), Compare::identity), form_(Form::typed),
      has_more_(false), compared_(std::move(compared)) {}

ContainerType::~ContainerType() {
  if (!python_alive())
    return;
  const WithGil gil;
  const KeepError keep;
  for (PyObject *name : fields_)
    Py_DECREF(name);
  Py_XDECREF(apart_);
  Py_XDECREF(together_);
}

int ContainerType::traverse(visitproc visit, void *arg) const {
  Py_VISIT(apart_);
  Py_VISIT(together_);
  return PyAtom::traverse(visit, arg);
}

Kind ContainerType::kind() const {
  switch (form_) {
  case Form::tuple:
    return Kind::tuple;
  case Form::list:
    return Kind::list;
  case Form::sequence:
    return PyType_IsSubtype(type(), &PyFrozenSet_Type) ? Kind::tuple : Kind::list;
  case Form::dict:
  case Form::ordered:
  case Form::mapping:
    return Kind::dict;
  case Form::record:
    return Kind::record;
  case Form::custom:
  case Form::typed:
  case Form::attributed:
    break;
  }
  return Kind::custom;
}

void ContainerType::learn_access() const {
  PyTypeObject *of = type();
  fields_in_dict_ = of->tp_getattro == PyObject_GenericGetAttr && of->tp_dictoffset != 0;
  for (PyObject *name : fields_) {
    PyObject *found = _PyType_Lookup(of, name); // gives the class a version
    fields_in_dict_ &= !found || !Py_TYPE(found)->tp_descr_set;
  }
  version_ = of->tp_version_tag ? of->tp_version_tag : kNoVersion;
}

bool ContainerType::is_field(PyObject *name) const {
  for (PyObject *field : fields_)
    if (field == name)
      return true;
  for (PyObject *field : fields_) // a name that is not interned
    if (PyUnicode_Check(name) && PyUnicode_Compare(field, name) == 0)
      return true;
  return false;
}

std::string ContainerType::field(std::size_t index) const {
  if (form_ == Form::custom)
    return index < names_.size() ? names_[index] : std::string();
  if (!python_alive())
    return {};
  const WithGil gil;
  const KeepError keep;
  std::string result;
  if (form_ == Form::record) {
    if (index < fields_.size())
      result = std::string(".") + utf8(fields_[index]);
  } else if (form_ == Form::tuple && type() != &PyTuple_Type) {
    const Owned key(PyUnicode_InternFromString("_fields"));
    PyObject *names = key ? _PyType_Lookup(type(), key.get()) : nullptr;
    if (names && PyTuple_Check(names) && index < static_cast<std::size_t>(PyTuple_GET_SIZE(names)))
      result = std::string(".") + utf8(PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(index)));
  }
  forget_error();
  return result;
}

std::string ContainerType::context() const {
  return form_ == Form::custom ? PyAtom::context() : std::string();
}

std::string ContainerType::text() const { return compared_ ? compared_->text() : PyAtom::text(); }

/// `[(key, child) ...], context`: keys whose text is `.x` or `[0]`. Names are for messages: errors
/// do not matter.
void ContainerType::learn_names(PyObject *object, PyObject *with_keys) {
  const KeepError keep;
  const Observed observed;
  const Owned taken(PyObject_CallOneArg(with_keys, object));
  const Owned pairs(taken && PyTuple_Check(taken.get()) && PyTuple_GET_SIZE(taken.get()) == 2
                        ? PySequence_List(PyTuple_GET_ITEM(taken.get(), 0))
                        : nullptr);
  for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(pairs.get()); ++i) {
    PyObject *pair = PyList_GET_ITEM(pairs.get(), i);
    const Owned text(PyTuple_Check(pair) && PyTuple_GET_SIZE(pair) == 2
                         ? PyObject_Str(PyTuple_GET_ITEM(pair, 0))
                         : nullptr);
    names_.push_back(text ? utf8(text.get()) : "");
  }
  forget_error();
}

std::shared_ptr<ContainerType> container_type(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  const auto made = [&](Form form) { return std::make_shared<ContainerType>(type, form); };
  if (PyTuple_CheckExact(object))
    return made(Form::tuple);
  if (PyList_CheckExact(object))
    return made(Form::list);
  if (PyDict_CheckExact(object))
    return made(Form::dict);
  if (is_object(object, type))
    return nullptr;
  if (PyObject *entry = registration(type)) {
    const auto get = [&](const char *name) { return PyObject_GetAttrString(entry, name); };
    auto custom = made(Form::custom);
    custom->apart_ = get("flatten_fn");
    custom->together_ = custom->apart_ ? get("unflatten_fn") : nullptr;
    const Owned with_keys(custom->together_ ? get("flatten_with_keys_fn") : nullptr);
    if (!with_keys)
      rethrow();
    if (with_keys.get() != Py_None)
      custom->learn_names(object, with_keys.get());
    return custom;
  }
  if (PyTuple_Check(object))
    return made(Form::tuple);
  if (PyList_Check(object))
    return made(Form::list);
  if (PyDict_Check(object))
    return made(PyODict_Check(object) ? Form::ordered : Form::dict);
  if (is_strictly(type, known().deque) || PyFrozenSet_Check(object))
    return made(Form::sequence);
  std::vector<PyObject *> fields;
  if (type == &PySlice_Type || type == &PyRange_Type)
    intern(fields, {"start", "stop", "step"});
  else if (is_strictly(type, known().partial))
    intern(fields, {"func", "args", "keywords"});
  else if (!is_strictly(type, known().simple_namespace) && !names_of_fields(type, fields))
    return PyType_HasFeature(type, Py_TPFLAGS_MAPPING) ? made(Form::mapping) : nullptr;
  auto record = made(Form::record);
  record->fields_ = std::move(fields);
  return record;
}

/// The names of `__slots__`, of all classes that have some.
static void names_of_slots(PyTypeObject *type, std::vector<PyObject *> &names) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type->tp_mro); ++i) {
    auto *base = reinterpret_cast<PyTypeObject *>(PyTuple_GET_ITEM(type->tp_mro, i));
    PyObject *name = nullptr, *value = nullptr;
    for (Py_ssize_t place = 0; (base->tp_flags & Py_TPFLAGS_HEAPTYPE) &&
                               PyDict_Next(base->tp_dict, &place, &name, &value);) {
      if (Py_TYPE(value) != &PyMemberDescr_Type)
        continue;
      const PyMemberDef *member = reinterpret_cast<PyMemberDescrObject *>(value)->d_member;
      if (member->type == T_OBJECT_EX && !(member->flags & READONLY))
        names.push_back(Py_NewRef(name));
    }
  }
}

std::shared_ptr<ContainerType> instance_type(PyObject *object) {
  PyTypeObject *type = Py_TYPE(object);
  const bool plain = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !is_object(object, type) &&
                     class_in_c(type) == &PyBaseObject_Type &&
                     type->tp_new == PyBaseObject_Type.tp_new && !type->tp_finalize &&
                     !type->tp_del;
  if (!plain)
    return nullptr;
  auto record = std::make_shared<ContainerType>(type, Form::record);
  names_of_slots(type, record->fields_);
  return record;
}

PyTypeObject *class_in_c(PyTypeObject *type) {
  // Some of these are on the heap, as a user's classes are, in some versions of Python.
  for (PyTypeObject *known_class : {known().deque, special().defaultdict, known().partial})
    if (is_strictly(type, known_class))
      return known_class;
  while (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
    type = type->tp_base;
  return type;
}

// ---- instances ----------------------------------------------------------------------------------

Children ContainerType::children(PyObject *object) const {
  Children result;
  switch (form_) {
  case Form::tuple:
  case Form::list:
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i)
      result.emplace_back(Py_NewRef(PySequence_Fast_GET_ITEM(object, i)));
    break;
  case Form::dict:
    return items_of(object);
  case Form::ordered:
  case Form::mapping:
  case Form::sequence: {
    const Owned iterator = checked(PyObject_GetIter(object));
    while (PyObject *item = PyIter_Next(iterator.get())) {
      result.emplace_back(item);
      if (form_ != Form::sequence)
        result.push_back(checked(PyObject_GetItem(object, item)));
    }
    if (PyErr_Occurred())
      rethrow();
    break;
  }
  case Form::record:
    for (PyObject *name : fields_)
      result.push_back(field_of(object, name));
    break;
  case Form::custom: {
    const Observed observed;
    const Owned taken = checked(PyObject_CallOneArg(apart_, object));
    if (!PyTuple_Check(taken.get()) || PyTuple_GET_SIZE(taken.get()) != 2)
      raise(errors().signature, std::string("the flatten function registered for ") +
                                    Py_TYPE(object)->tp_name + " must return (children, context).");
    const Owned items = checked(PySequence_List(PyTuple_GET_ITEM(taken.get(), 0)));
    result.emplace_back(Py_NewRef(PyTuple_GET_ITEM(taken.get(), 1)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      result.emplace_back(Py_NewRef(PyList_GET_ITEM(items.get(), i)));
    break;
  }
  case Form::typed: // its tensors are those that its type gives (user_value.h)
  case Form::attributed:
    break;
  }
  return result;
}

PyObject *ContainerType::together(PyObject *children, PyObject *context) const {
  const Observed observed;
  return PyObject_CallFunctionObjArgs(together_, children, context, nullptr);
}

Children items_of(PyObject *dict) {
  Children result;
  PyObject *key = nullptr, *item = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(dict, &place, &key, &item);) {
    result.emplace_back(Py_NewRef(key));
    result.emplace_back(Py_NewRef(item));
  }
  return result;
}

Owned field_of(PyObject *object, PyObject *name) {
  Owned value(PyObject_GetAttr(object, name));
  if (!value) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
      rethrow();
    forget_error();
  }
  return value;
}

Owned further_state(PyObject *object, const ContainerType &type) {
  Owned state;
  const auto add = [&](PyObject *name, PyObject *value) {
    if (!state)
      state = Owned(PyDict_New());
    if (!state || PyDict_SetItem(state.get(), name, value))
      rethrow();
  };
  if (const char *attribute = type.attribute_in_c()) {
    const Owned key(PyUnicode_InternFromString(attribute));
    const Owned value = field_of(object, key.get());
    if (value && value.get() != Py_None)
      add(key.get(), value.get());
  }
  PyObject **dict = _PyObject_GetDictPtr(object);
  if (!dict || !*dict || !PyDict_Check(*dict))
    return state;
  const Owned held(Py_NewRef(*dict));
  PyObject *name = nullptr, *value = nullptr;
  for (Py_ssize_t place = 0; PyDict_Next(held.get(), &place, &name, &value);)
    if (!type.is_field(name))
      add(name, value);
  return state;
}

} // namespace tracehost::python
