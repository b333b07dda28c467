#include "atoms.h"
#include "guards/gil.h"
#include "python_call.h"

#include <torch/csrc/Dtype.h>

namespace tracehost::python {
namespace {

Parameters::Kind core_kind(Parameter::Kind kind) {
  switch (kind) {
  case Parameter::Kind::var_positional:
    return Parameters::Kind::var_positional;
  case Parameter::Kind::keyword:
    return Parameters::Kind::keyword;
  case Parameter::Kind::var_keyword:
    return Parameters::Kind::var_keyword;
  default:
    return Parameters::Kind::positional;
  }
}

/// As a leaf's text; of what may run a user's `__repr__` only that there is one.
std::string default_text(PyObject *value) {
  if (!value)
    return {};
  Signature signature;
  const Node node = leaf(value, signature.atoms);
  const bool plain = !node.has_atom() || PyUnicode_CheckExact(value) || THPDtype_Check(value);
  return plain ? text(signature, node) : "<default>";
}

} // namespace

PythonFunction::PythonFunction(PyObject *wrapped, PyObject *list, PyObject *empty)
    : callable(Py_NewRef(wrapped)), binder(list, empty) {
  auto made = std::make_shared<Parameters>();
  for (const Parameter &p : binder.parameters()) {
    made->names.push_back(utf8(p.name));
    made->kinds.push_back(core_kind(p.kind));
    made->defaults.push_back(default_text(p.default_value));
  }
  parameters = std::move(made);
}
PythonFunction::~PythonFunction() {
  Py_XDECREF(instance);
  Py_XDECREF(callable);
}

PyObject *PythonFunction::bound_to() const {
  PyObject *object = instance ? reinterpret_cast<PyWeakReference *>(instance)->wr_object : nullptr;
  return object == Py_None ? nullptr : object;
}

} // namespace tracehost::python
