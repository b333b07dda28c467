#include "hooks/autograd_function.h"

#include "base/errors.h"
#include "base/lazy.h"
#include "base/object.h"
#include "hooks/forwarding.h"
#include "trace/tracer.h"

#include <pybind11/pybind11.h>

#include <string>

#include <structmember.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// Function.apply: a class method.
struct Apply {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject *original; ///< what was in the class's dict; strong
};

/// tracehost._traced.foreign.call(callable, name, args, kwargs). Cold.
PyObject *record(PyObject *callable, const std::string &name, PyObject *const *args,
                 std::size_t count, PyObject *kwnames) {
  const Owned module(PyImport_ImportModule("tracehost._traced.foreign"));
  const Owned positional(PyTuple_New(static_cast<Py_ssize_t>(count))), named(PyDict_New());
  if (!module || !positional || !named)
    return nullptr;
  for (std::size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    if (PyDict_SetItem(named.get(), PyTuple_GET_ITEM(kwnames, i), args[count + i]) != 0)
      return nullptr;
  return PyObject_CallMethod(module.get(), "call", "OsOO", callable, name.c_str(), positional.get(),
                             named.get());
}

PyObject *call_apply(PyObject *self, PyObject *const *args, std::size_t nargsf, PyObject *kwnames) {
  PyObject *original = reinterpret_cast<Apply *>(self)->original;
  const auto count = PyVectorcall_NARGS(nargsf);
  if (count == 0) {
    PyErr_SetString(PyExc_TypeError, "apply() is called on a class");
    return nullptr;
  }
  const Owned bound(Py_TYPE(original)->tp_descr_get(original, nullptr, args[0]));
  if (!bound)
    return nullptr;
  const auto given = static_cast<std::size_t>(count - 1);
  if (!trace::recording()) [[likely]]
    return PyObject_Vectorcall(bound.get(), args + 1, given, kwnames);
  const std::string of = PyType_Check(args[0]) ? reinterpret_cast<PyTypeObject *>(args[0])->tp_name
                                               : "autograd.Function";
  return record(bound.get(), of + ".apply", args + 1, given, kwnames);
}

PyObject *bind_class(PyObject *self, PyObject *instance, PyObject *owner) {
  return PyMethod_New(self, owner ? owner : reinterpret_cast<PyObject *>(Py_TYPE(instance)));
}

/// `__name__`, `__doc__` ...
PyObject *get_of_applied(PyObject *self, PyObject *name) {
  if (PyObject *own = PyObject_GenericGetAttr(self, name))
    return own;
  PyErr_Clear();
  PyObject *original = reinterpret_cast<Apply *>(self)->original;
  const Owned function(PyObject_HasAttrString(original, "__func__")
                           ? PyObject_GetAttrString(original, "__func__")
                           : Py_NewRef(original));
  return function ? PyObject_GetAttr(function.get(), name) : nullptr;
}

// Never freed: an attribute of torch.autograd.Function for the process's life.
PyTypeObject *apply_type() {
  static constinit Lazy<PyTypeObject *> made;
  return made([] {
    static constinit PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(Apply, vectorcall), READONLY, nullptr}, {}};
    PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
                           {Py_tp_descr_get, reinterpret_cast<void *>(bind_class)},
                           {Py_tp_getattro, reinterpret_cast<void *>(get_of_applied)},
                           {Py_tp_members, members},
                           {0, nullptr}};
    PyType_Spec spec{"tracehost._tracehost.apply", sizeof(Apply), 0,
                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, slots};
    return reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&spec));
  });
}

PyObject *call_method(PyObject *original, const char *, PyObject *const *args, std::size_t nargsf,
                      PyObject *kwnames) {
  const Owned bound(Py_TYPE(original)->tp_descr_get
                        ? Py_TYPE(original)->tp_descr_get(
                              original, args[0], reinterpret_cast<PyObject *>(Py_TYPE(args[0])))
                        : PyMethod_New(original, args[0]));
  const Owned name(bound ? PyObject_GetAttrString(args[0], "name") : nullptr);
  if (!name)
    return nullptr;
  return record(bound.get(), std::string("a scripted module's ") + utf8(name.get()), args + 1,
                static_cast<std::size_t>(PyVectorcall_NARGS(nargsf) - 1), kwnames);
}

} // namespace

void install_foreign_patches() {
  const py::object function = py::module_::import("torch.autograd").attr("Function");
  auto *apply = PyObject_New(Apply, apply_type());
  if (!apply)
    rethrow();
  apply->vectorcall = call_apply;
  apply->original = py::object(function.attr("__dict__")["apply"]).release().ptr();
  function.attr("apply") = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject *>(apply));

  const py::object method = py::module_::import("torch._C").attr("ScriptMethod");
  forward_method(reinterpret_cast<PyTypeObject *>(method.ptr()), "__call__", call_method);
}

} // namespace tracehost::python
