#include "call/python_function.h"

#include "base/errors.h"
#include "base/object.h"
#include "base/op_warnings.h"
#include "pytree/leaf.h"

#include <torch/csrc/Dtype.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace tracehost::python {
namespace {

/// By Parameter::Kind.
constexpr std::array<Parameters::Kind, 5> kCoreKinds = {
    Parameters::Kind::positional, Parameters::Kind::positional, Parameters::Kind::var_positional,
    Parameters::Kind::keyword, Parameters::Kind::var_keyword};

/// As a leaf's text; of what may run a user's `__repr__` only that there is one.
std::string default_text(PyObject *value) {
  if (!value)
    return {};
  Signature signature;
  const Node node = leaf(value, signature.atoms);
  const bool plain = !node.has_atom() || PyUnicode_CheckExact(value) || THPDtype_Check(value);
  return plain ? text(signature, node) : "<default>";
}

/// Borrowed; null: code of C, or an object that is called.
PyObject *function_behind(PyObject *callable) {
  PyObject *inner = PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable;
  return PyFunction_Check(inner) ? inner : nullptr;
}

/// What a call is bound to: the names and kinds of parameters.
Owned parameters_of(PyObject *code) {
  auto *of = reinterpret_cast<PyCodeObject *>(code);
  const int stars = of->co_flags & (CO_VARARGS | CO_VARKEYWORDS);
  const int count =
      of->co_argcount + of->co_kwonlyargcount + !!(stars & CO_VARARGS) + !!(stars & CO_VARKEYWORDS);
  const Owned names(PyCode_GetVarnames(of));
  const Owned own(names ? PyTuple_GetSlice(names.get(), 0, count) : nullptr);
  return Owned(own ? Py_BuildValue("Oiiii", own.get(), of->co_argcount, of->co_posonlyargcount,
                                   of->co_kwonlyargcount, stars)
                   : nullptr);
}

} // namespace

PythonFunction::PythonFunction(PyObject *wrapped, PyObject *list, PyObject *empty)
    : callable(Py_NewRef(wrapped)), function(function_behind(wrapped)),
      code(function ? Py_NewRef(PyFunction_GET_CODE(function)) : nullptr), binder(list, empty) {
  auto made = std::make_shared<Parameters>();
  for (const Parameter &p : binder.parameters()) {
    made->names.push_back(utf8(p.name.get()));
    made->kinds.push_back(kCoreKinds[static_cast<std::size_t>(p.kind)]);
    made->defaults.push_back(default_text(p.default_value.get()));
  }
  parameters = std::move(made);
}

void PythonFunction::take_new_code() {
  PyObject *now = PyFunction_GET_CODE(function);
  const Owned before = parameters_of(code.get()), after = parameters_of(now);
  const int same =
      before && after ? PyObject_RichCompareBool(before.get(), after.get(), Py_EQ) : -1;
  if (same < 0)
    rethrow();
  if (!same) {
    const Owned old_names(PyObject_Repr(PyTuple_GET_ITEM(before.get(), 0)));
    const Owned new_names(PyObject_Repr(PyTuple_GET_ITEM(after.get(), 0)));
    if (!old_names || !new_names)
      rethrow();
    raise(errors().trace,
          fmt::format("{}: the new __code__ of the function has the parameters {}, the old one had "
                      "{}. Apply tracehost.function again.",
                      name, utf8(new_names.get()), utf8(old_names.get())));
  }
  core->clear();
  drop_evicted();
  history = TraceHistory();
  code = Owned(Py_NewRef(now));
}

PyObject *PythonFunction::bound_to() const { return instance ? referent(instance.get()) : nullptr; }

void PythonFunction::drop_evicted() {
  const auto list = core->cache().list();
  const auto gone = std::stable_partition(concrete.begin(), concrete.end(), [&](const auto &one) {
    return std::find(list->begin(), list->end(), one.first) != list->end();
  });
  // Destroyed when `concrete` is as it will be.
  const std::vector<std::pair<SpecializationRef, Owned>> dropped(
      std::make_move_iterator(gone), std::make_move_iterator(concrete.end()));
  concrete.erase(gone, concrete.end());
}

int PythonFunction::traverse_specializations(visitproc visit, void *arg) const {
  std::unordered_set<const Specialization *> visited; // by their ConcreteFunctions
  for (const auto &[specialization, object] : concrete) {
    Py_VISIT(object.get());
    visited.insert(specialization.get());
  }
  const auto list = core->cache().list();
  for (const auto &s : *list)
    if (!visited.contains(s.get()))
      if (const int stop = traverse_specialization(*s, visit, arg))
        return stop;
  return 0;
}

void run_program(const Specialization &specialization, Operands &operands) {
  OpWarnings warnings(operands);
  {
    std::optional<pybind11::gil_scoped_release> released;
    if (specialization.runs_without_gil())
      released.emplace();
    specialization.program->run(operands);
  }
  warnings.give();
}

int traverse_specialization(const Specialization &s, visitproc visit, void *arg) {
  std::unordered_set<const Atom *> seen;
  const auto &state = static_cast<const PythonState &>(*s.front_end);
  int stop = state.guards->traverse(visit, arg, seen);
  if (!stop)
    stop = python::traverse(s.signature.atoms, visit, arg, seen);
  for (const OutputSpec &tree : state.stored)
    if (!stop)
      stop = python::traverse(tree.atoms, visit, arg, seen);
  if (!stop)
    stop = python::traverse(s.outputs.atoms, visit, arg, seen);
  for (std::size_t i = 0; i < state.calls.size() && !stop; ++i)
    stop = state.calls[i]->traverse(visit, arg);
  return stop;
}

} // namespace tracehost::python
