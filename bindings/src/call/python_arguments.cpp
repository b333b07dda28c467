#include "base/autograph.h"
#include "base/checked.h"
#include "base/errors.h"
#include "base/object.h"
#include "call/gate.h"
#include "call/plain_calls.h"
#include "call/python_trace.h"
#include "pytree/arrays.h"
#include "pytree/user_type.h"

#include <fmt/format.h>

/// The slow part of PythonCall's arguments. Raises where they do not bind, converts them to what
/// was declared, and passes them to the body.

namespace tracehost::python {

bool PythonCall::reject_arguments() {
  // Python's own binding has the words for it.
  std::vector<PyObject *> all = {function_.callable.get(),
                                 function_.declaration ? Py_True : Py_False};
  const Py_ssize_t named = kwnames_ ? PyTuple_GET_SIZE(kwnames_) : 0;
  all.insert(all.end(), args_, args_ + positional_ + named);
  const Owned module(PyImport_ImportModule("tracehost._function"));
  const Owned reject(module ? PyObject_GetAttrString(module.get(), "reject_arguments") : nullptr);
  if (reject && Owned(PyObject_Vectorcall(reject.get(), all.data(), 2 + positional_, kwnames_)))
    PyErr_Format(PyExc_TypeError, "%s: the arguments do not fit the parameters",
                 function_.name.c_str());
  return false;
}

bool PythonCall::convert(const Conversion &conversion) {
  auto made = std::make_unique<Converted>();
  std::vector<PyObject *> names;
  bool changed = false;
  const auto add = [&](std::size_t parameter, PyObject *value) {
    try {
      made->values.push_back(conversion(parameter, value));
    } catch (...) {
      rethrow_about(
          fmt::format("argument '{}'", utf8(function_.binder.parameters()[parameter].name.get())));
    }
    made->args.push_back(made->values.back().get());
    changed |= made->args.back() != value;
  };
  std::size_t place = 0, index = 0;
  for (const Parameter &p : function_.binder.parameters()) {
    if (p.kind == Parameter::Kind::var_positional) {
      for (std::size_t i = 0; i < bound_.extra_count; ++i)
        add(index, bound_.extra[i]);
    } else if (p.kind == Parameter::Kind::var_keyword) {
      for (const auto &[name, value] : bound_.keywords) {
        add(index, value);
        names.push_back(name);
      }
    } else {
      add(index, bound_.values[place++]);
      if (p.kind == Parameter::Kind::keyword)
        names.push_back(p.name.get());
    }
    ++index;
  }
  if (!changed)
    return false;
  if (!names.empty()) {
    made->names = checked(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
    for (std::size_t i = 0; i < names.size(); ++i)
      PyTuple_SET_ITEM(made->names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names[i]));
  }
  args_ = made->args.data();
  positional_ = made->args.size() - names.size();
  kwnames_ = made->names.get();
  bound_.keywords.clear();
  if (!function_.binder.bind(args_, positional_, kwnames_, bound_))
    raise(PyExc_TypeError, function_.name + ": the converted arguments do not fit the parameters");
  converted_ = std::move(made); // what was converted before was needed until here
  return true;
}

bool PythonCall::convert_arrays() {
  if (!has_arrays())
    return false;
  Rebuild rebuild = tensors_for_arrays();
  const bool converted = convert([&](std::size_t, PyObject *value) {
    return value == function_.bound_to() ? Owned(Py_NewRef(value)) : rebuild.value(value);
  });
  function_.takes_arrays |= converted && !function_.declaration;
  return converted;
}

PyObject *PythonCall::call_body() {
  const bool traced = trace::active() && !trace::abandoned();
  const Converting converting(traced && function_.autograph);
  if (traced && converting.is_outermost())
    forget_shown();
  if (!Converting::now())
    return PyObject_Vectorcall(function_.callable.get(), args_, positional_, kwnames_);
  const Owned body = converted(function_.callable.get());
  PyObject *result = body ? PyObject_Vectorcall(body.get(), args_, positional_, kwnames_) : nullptr;
  if (!result)
    clean_traceback();
  return result;
}

void PythonTrace::missed() {
  check_what_is_around(function_);
  is_miss_ = true;
}

void PythonTrace::before_trace(const Signature &signature) {
  ask_gate(function_, call_, signature);
}

bool PythonTrace::adapt() {
  if (PyErr_Occurred()) // a user's `__eq__` was interrupted while a Specialization was verified
    rethrow();
  if (call_.found_.failure) {
    const Owned error = std::move(call_.found_.failure);
    PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())), error.get());
    rethrow();
  }
  if (!function_.declaration)
    return call_.convert_arrays();
  call_.may_specialize =
      function_.traces_reads && call_.may_specialize != trace::MaySpecialize::none
          ? trace::MaySpecialize::reads
          : trace::MaySpecialize::none;
  const Owned made(function_.declaration->convert(function_.binder, bound_));
  if (!made)
    return false;
  Py_ssize_t next = 0;
  return call_.convert([&](std::size_t, PyObject *) {
    return Owned(Py_NewRef(PyTuple_GET_ITEM(made.get(), next++)));
  });
}

/// Where types of the user's make what the body sees of their objects.
PyObject *PythonTrace::call_with_placeholders() {
  PythonCall call(function_, call_.args_, call_.positional_, call_.kwnames_);
  if (!call.bind())
    return nullptr;
  std::string argument;
  Rebuild rebuild([&](PyObject *leaf) -> PyObject * {
    return has_user_type(Py_TYPE(leaf)) ? seen_by_body(values_.of(leaf), argument) : nullptr;
  });
  call.convert([&](std::size_t parameter, PyObject *value) {
    argument = utf8(function_.binder.parameters()[parameter].name.get());
    return value == function_.bound_to() ? Owned(Py_NewRef(value)) : rebuild.value(value);
  });
  return call.call_body();
}

} // namespace tracehost::python
