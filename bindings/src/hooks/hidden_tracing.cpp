#include "hooks/hidden_tracing.h"

#include "base/autograph.h"
#include "base/frame.h"
#include "base/known.h"
#include "base/object.h"
#include "trace/tracer.h"

#include <Python.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace tracehost::python {

namespace py = pybind11;

namespace {

PyObject *call_impl_code = nullptr; ///< of torch.nn.Module: borrowed from it

/// nn.Module's call asks whether to go through _slow_forward, which is ours (base/autograph.h).
bool is_asked_by_module() {
  const Frame *frame = Converting::now() ? innermost_frame() : nullptr;
  return frame && code_object(*frame) == call_impl_code;
}

/// From torch.jit.is_tracing() up to the question.
constexpr int kFramesBetween = 4;

/// transformers.utils.import_utils.is_tracing(tensor).
bool is_asked_in(const Frame &frame) {
  PyObject *module = PyDict_GetItemString(frame.globals, "__name__");
  if (std::string_view(utf8(frame.code->co_name)) != "is_tracing" ||
      std::string_view(utf8(module)) != "transformers.utils.import_utils")
    return false;
  PyObject *tensor = local_named(frame, "tensor");
  return tensor && is_tensor(tensor) && !THPVariable_Unpack(tensor).is_cpu();
}

/// Whether the code that runs now asks whether it may read the values of a tensor on a device. Runs
/// no user code. Requires: a trace is active on this thread.
///
/// Problem: transformers looks into an attention mask, so that it can leave the mask out where it
/// masks nothing. On a GPU each look waits for the device, and each answer is a graph of its own.
/// transformers does not look while it is traced, and asks `is_tracing(mask)` before. Answer: of a
/// tensor that is not on the CPU this is answered with yes. On the CPU a look costs little: there
/// the answer is no, and the same kernels run as in eager.
bool is_asked_about_device() {
  const KeepError keep;
  const Frame *frame = innermost_frame();
  for (int i = 0; frame && i < kFramesBetween; ++i, frame = caller_of(*frame))
    if (is_asked_in(*frame))
      return true;
  return false;
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
