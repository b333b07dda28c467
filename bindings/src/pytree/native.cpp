#include "pytree/native.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "pytree/container.h"
#include "pytree/leaf.h"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/Layout.h>
#include <torch/csrc/MemoryFormat.h>
#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/pybind11.h>

#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <memory>

namespace tracehost::python {

namespace py = pybind11;

namespace {

std::string shown(PyObject *object) {
  std::vector<AtomRef> atoms;
  const Node node = leaf(object, atoms);
  return node.kind == Kind::atom ? node.payload.atom->text() : Py_TYPE(object)->tp_name;
}

/// `module:Qualified.Name`
std::string full_name(PyTypeObject *type) {
  const KeepError keep;
  const Owned module(PyObject_GetAttrString(reinterpret_cast<PyObject *>(type), "__module__"));
  const Owned name(PyType_GetQualName(type));
  forget_error();
  return fmt::format("{}:{}", utf8(module.get()), utf8(name.get()));
}

bool text_of(PyObject *str, std::string &into) {
  Py_ssize_t size = 0;
  const char *text = str ? PyUnicode_AsUTF8AndSize(str, &size) : nullptr;
  forget_error(); // a lone surrogate
  if (text)
    into.assign(text, static_cast<std::size_t>(size));
  return text != nullptr;
}

std::string complex_bytes(PyObject *object) {
  Py_complex value = PyComplex_AsCComplex(object);
  for (double *part : {&value.real, &value.imag})
    if (*part != *part)
      *part = std::numeric_limits<double>::quiet_NaN();
  std::string bytes(2 * sizeof(double), '\0');
  std::memcpy(bytes.data(), &value.real, sizeof(double));
  std::memcpy(bytes.data() + sizeof(double), &value.imag, sizeof(double));
  return bytes;
}

/// False: it is no such literal.
bool literal_of(PyObject *object, Literal::Type &type, std::string &value) {
  using Type = Literal::Type;
  if (PyUnicode_CheckExact(object)) {
    type = Type::string;
    return text_of(object, value);
  }
  if (PyBytes_CheckExact(object)) {
    type = Type::bytes;
    value.assign(PyBytes_AS_STRING(object), static_cast<std::size_t>(PyBytes_GET_SIZE(object)));
    return true;
  }
  if (PyLong_CheckExact(object)) { // beyond 64 bits
    type = Type::big_integer;
    return text_of(Owned(PyObject_Str(object)).get(), value);
  }
  if (PyComplex_CheckExact(object)) {
    type = Type::complex;
    value = complex_bytes(object);
    return true;
  }
  if (THPDtype_Check(object) || THPLayout_Check(object) || THPMemoryFormat_Check(object)) {
    type = Type::torch;
    const bool told = text_of(Owned(PyObject_Str(object)).get(), value);
    value.erase(0, value.find('.') + 1);
    return told;
  }
  if (is_enum_member(object)) {
    type = Type::member;
    const Owned name(PyObject_GetAttrString(object, "_name_"));
    std::string own;
    if (!text_of(name.get(), own)) // a combination of flags
      return false;
    value = full_name(Py_TYPE(object)) + "." + own;
    return true;
  }
  return false;
}

/// Null: its instances can't be stored.
std::shared_ptr<ContainerClass> native_class(const ContainerType &type) {
  using Own = ContainerClass::Form;
  PyTypeObject *of = type.type();
  if (of == &PyTuple_Type || of == &PyList_Type || of == &PyDict_Type)
    return std::make_shared<ContainerClass>(of == &PyTuple_Type  ? Own::tuple
                                            : of == &PyList_Type ? Own::list
                                                                 : Own::dict);
  std::vector<std::string> fields;
  if (type.form() == Form::record) {
    for (PyObject *field : type.fields())
      fields.emplace_back(utf8(field));
    return std::make_shared<ContainerClass>(Own::record, full_name(of), std::move(fields));
  }
  if (type.form() != Form::tuple)
    return nullptr;
  const std::string name = full_name(of);
  if (name == "torch:Size")
    return std::make_shared<ContainerClass>(Own::tuple);
  for (std::size_t i = 0; !type.field(i).empty(); ++i)
    fields.push_back(type.field(i).substr(1));
  return fields.empty()
             ? nullptr
             : std::make_shared<ContainerClass>(Own::named_tuple, name, std::move(fields));
}

py::object python_part(const char *function, const py::args &args) {
  return py::module_::import("tracehost._archive").attr(function)(*args);
}

/// The Python value of a native leaf: a new reference. Throws.
PyObject *python_leaf(const Node &node) {
  if (node.kind != Kind::atom)
    return python_value(node);
  const auto &literal = dynamic_cast<const Literal &>(*node.payload.atom);
  const std::string &value = literal.value();
  const auto size = static_cast<Py_ssize_t>(value.size());
  switch (literal.type()) {
  case Literal::Type::string:
    return PyUnicode_DecodeUTF8(value.data(), size, nullptr);
  case Literal::Type::bytes:
    return PyBytes_FromStringAndSize(value.data(), size);
  case Literal::Type::big_integer:
    return PyLong_FromString(value.c_str(), nullptr, 10);
  case Literal::Type::complex: {
    double parts[2];
    std::memcpy(parts, value.data(), sizeof parts);
    return PyComplex_FromDoubles(parts[0], parts[1]);
  }
  case Literal::Type::torch:
    return python_part("torch_constant", py::make_tuple(value)).release().ptr();
  case Literal::Type::member:
    return python_part("member", py::make_tuple(value)).release().ptr();
  }
  return nullptr;
}

} // namespace

void make_native(std::vector<Node> &nodes, std::vector<AtomRef> &atoms) {
  std::vector<AtomRef> native;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node &node = nodes[i];
    const std::uint32_t end = node.end;
    if (node.kind == Kind::alias || node.kind == Kind::further)
      throw Unstorable{i, node.kind == Kind::alias && node.reserved[1]
                              ? "an object from outside of it"
                          : node.kind == Kind::alias ? "an object that is an argument twice"
                                                     : "a container with attributes of its own"};
    if (node.is_container()) {
      const auto *type = dynamic_cast<const ContainerType *>(node.payload.atom);
      auto made = type ? native_class(*type) : nullptr;
      if (!made)
        throw Unstorable{i, !type ? "a container"
                            : type->form() == Form::attributed
                                ? "a tensor with attributes"
                                : fmt::format("a {}", type->type()->tp_name)};
      node = container(std::move(made), native);
    } else if (node.kind == Kind::atom) {
      const Owned object(python_value(node));
      if (!object) {
        forget_error();
        throw Unstorable{i, node.payload.atom->text()};
      }
      std::vector<AtomRef> own;
      node = leaf(object.get(), own);
      if (node.kind == Kind::atom) {
        Literal::Type type{};
        std::string value;
        if (!literal_of(object.get(), type, value))
          throw Unstorable{i, shown(object.get())};
        node = literal(type, std::move(value), native);
      }
    }
    node.end = end;
    node.reserved[0] = 0;
  }
  atoms = std::move(native);
}

PyObject *python_tree(const std::vector<Node> &nodes, std::size_t &at,
                      const std::vector<PyObject *> &tensors) {
  const Node &node = nodes[at++];
  if (node.kind == Kind::tensor)
    return Py_NewRef(tensors[node.payload.slot]);
  if (!node.is_container())
    return python_leaf(node);
  const auto &type = dynamic_cast<const ContainerClass &>(*node.payload.atom);
  py::list items;
  py::list absent; // places of fields that have no value
  while (at < node.end) {
    if (nodes[at].kind == Kind::absent) {
      ++at;
      absent.append(items.size());
      items.append(py::none());
      continue;
    }
    PyObject *item = python_tree(nodes, at, tensors);
    if (!item)
      return nullptr;
    items.append(py::reinterpret_steal<py::object>(item));
  }
  using Form = ContainerClass::Form;
  switch (type.form()) {
  case Form::list:
    return items.release().ptr();
  case Form::tuple:
    return PyList_AsTuple(items.ptr());
  case Form::dict: {
    py::dict made;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (PyDict_SetItem(made.ptr(), items[i].ptr(), items[i + 1].ptr()) < 0)
        return nullptr;
    return made.release().ptr();
  }
  default:
    return python_part("put_together", py::make_tuple(type.name(), py::cast(type.fields()),
                                                      type.form() == Form::record, items, absent))
        .release()
        .ptr();
  }
}

} // namespace tracehost::python
