#include "hooks/autograd_function.h"

#include "base/object.h"
#include "hooks/forwarding.h"

#include <pybind11/pybind11.h>

#include <string>

namespace tracehost::python {
namespace {

namespace py = pybind11;

/// tracehost._traced.foreign.call(callable, name, args, kwargs). Cold.
PyObject *record(const Owned &callable, const std::string &name, PyObject *const *args,
                 std::size_t nargsf, PyObject *kwnames) {
  if (!callable)
    return nullptr;
  const auto count = static_cast<std::size_t>(PyVectorcall_NARGS(nargsf) - 1);
  py::tuple positional(count);
  for (std::size_t i = 0; i < count; ++i)
    positional[i] = py::handle(args[1 + i]);
  py::dict named;
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    named[PyTuple_GET_ITEM(kwnames, i)] = py::handle(args[1 + count + i]);
  const py::object call = py::module_::import("tracehost._traced.foreign").attr("call");
  return call(py::handle(callable.get()), name, positional, named).release().ptr();
}

PyObject *apply(PyObject *original, const char *, PyObject *const *args, std::size_t nargsf,
                PyObject *kwnames) {
  const Owned bound(Py_TYPE(original)->tp_descr_get(original, nullptr, args[0]));
  const std::string of = PyType_Check(args[0]) ? reinterpret_cast<PyTypeObject *>(args[0])->tp_name
                                               : "autograd.Function";
  return record(bound, of + ".apply", args, nargsf, kwnames);
}

PyObject *call_method(PyObject *original, const char *, PyObject *const *args, std::size_t nargsf,
                      PyObject *kwnames) {
  const Owned bound(Py_TYPE(original)->tp_descr_get
                        ? Py_TYPE(original)->tp_descr_get(
                              original, args[0], reinterpret_cast<PyObject *>(Py_TYPE(args[0])))
                        : PyMethod_New(original, args[0]));
  const py::object name = py::handle(args[0]).attr("name");
  return record(bound, std::string("a scripted module's ") + utf8(name.ptr()), args, nargsf,
                kwnames);
}

} // namespace

void install_foreign_patches() {
  const py::object function = py::module_::import("torch.autograd").attr("Function");
  forward_class_method(reinterpret_cast<PyTypeObject *>(function.ptr()), "apply", apply);
  const py::object method = py::module_::import("torch._C").attr("ScriptMethod");
  forward_method(reinterpret_cast<PyTypeObject *>(method.ptr()), "__call__", call_method);
}

} // namespace tracehost::python
