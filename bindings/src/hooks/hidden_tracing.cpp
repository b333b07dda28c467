#include "hooks/hidden_tracing.h"

#include "base/autograph.h"
#include "base/library_questions.h"
#include "trace/tracer.h"

#include <Python.h>
#include <pybind11/pybind11.h>

namespace tracehost::python {

namespace py = pybind11;

namespace {

PyObject *call_impl_code = nullptr; ///< of torch.nn.Module: borrowed from it

/// nn.Module's call asks whether to go through _slow_forward, which is ours (base/autograph.h).
bool is_asked_by_module() {
  if (!Converting::now())
    return false;
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  if (!frame)
    return false;
  PyCodeObject *code = PyFrame_GetCode(frame);
  Py_DECREF(frame);
  const bool found = reinterpret_cast<PyObject *>(code) == call_impl_code;
  Py_DECREF(code);
  return found;
}

PyObject *tracing_state(PyObject *original, PyObject *) {
  if (is_asked_by_module())
    return Py_NewRef(Py_True);
  return trace::active() ? Py_NewRef(Py_None) : PyObject_CallNoArgs(original);
}
PyObject *is_tracing(PyObject *original, PyObject *) {
  if (is_asked_by_module())
    return Py_NewRef(Py_True);
  return trace::active() ? PyBool_FromLong(is_asked_about_device()) : PyObject_CallNoArgs(original);
}

} // namespace

void hide_tracing() {
  static constinit PyMethodDef state{"_get_tracing_state", tracing_state, METH_NOARGS, nullptr};
  static constinit PyMethodDef tracing{"_is_tracing", is_tracing, METH_NOARGS, nullptr};
  py::module_ torch_c = py::module_::import("torch._C");
  const py::object module = py::module_::import("torch.nn").attr("Module");
  call_impl_code = py::object(module.attr("_call_impl").attr("__code__")).release().ptr();
  for (PyMethodDef *method : {&state, &tracing}) {
    const py::object original = torch_c.attr(method->ml_name);
    torch_c.attr(method->ml_name) =
        py::reinterpret_steal<py::object>(PyCFunction_New(method, original.ptr()));
  }
}

} // namespace tracehost::python
