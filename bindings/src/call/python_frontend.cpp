#include "call/python_trace.h"

#include "base/autograph.h"
#include "base/errors.h"
#include "base/forget_error.h"
#include "base/kinds.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/unobserved.h"
#include "base/user_line.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <algorithm>

/// What a trace asks of Python while the body runs.

namespace tracehost::python {

namespace py = pybind11;

Site PythonTrace::here() {
  const WithGil gil;
  return user_line();
}

trace::Instruction PythonTrace::instruction() {
  const WithGil gil;
  PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
  trace::Instruction now;
  while (frame && !now.frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (origin_of(code) != Origin::tracehost) // TracedNumber.__float__ is asked by that one's call
      now = {frame, PyFrame_GetLasti(frame)};
    Py_DECREF(code);
    PyFrameObject *back = now.frame ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return now;
}

Site PythonTrace::catches() {
  const WithGil gil;
  return catching_line();
}

bool PythonTrace::acts_on_raise() {
  const WithGil gil;
  return recorder_->stores().noted() > 0 || python::acts_on_raise();
}

std::string PythonTrace::why_not_staged() {
  const WithGil gil;
  return Converting::now() ? why_not_converted() : "autograph is off";
}

std::string PythonTrace::capture_path(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  const std::string line = text(user_line());
  const bool born =
      object && allocations_->has(object) && !recorder_->paths().numbers().gives(object);
  if (!object || born)
    trace::reject(
        trace::Rejection::capture,
        fmt::format(
            "a tensor used at {} was made during the trace by something that is not "
            "recorded (numpy, dlpack, another thread, a view of storage). Make it outside of "
            "the function, or by a torch op in it.",
            line));
  std::string path = recorder_->paths().path_of(object);
  if (is_fake_tensor(object))
    trace::reject(
        trace::Rejection::capture,
        fmt::format("the tensor used at {} is a fake tensor of another call, or of a staged "
                    "branch or loop. It left that through a container, an attribute or a "
                    "function's state. Assign it to a variable there (in each branch), or "
                    "collect values in a TensorArray.",
                    line));
  if (path.empty() && !Allocations::notes(Py_TYPE(object)))
    trace::reject(
        trace::Rejection::capture,
        fmt::format(
            "a {} used at {} is reached by no path that tracehost can read again. Pass it as "
            "an argument.",
            Py_TYPE(object)->tp_name, line));
  if (tensor.is_nested())
    trace::reject(trace::Rejection::capture,
                  fmt::format("{} used at {} is a nested tensor, which has no sizes that a graph "
                              "could be traced for. Pad it outside of the function "
                              "(torch.nested.to_padded_tensor), and use the lengths, too.",
                              path.empty() ? "a tensor" : path, line));
  capture_metas_.push_back(meta_of(object));
  return path.empty() ? "a tensor first used at " + line : path;
}

std::string PythonTrace::path_of(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  return object ? recorder_->paths().path_of(object) : std::string();
}

bool PythonTrace::alone() {
  const PyThreadState *first = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
  return first && !PyThreadState_Next(const_cast<PyThreadState *>(first));
}

void PythonTrace::blocking(const std::function<void()> &wait) {
  std::optional<pybind11::gil_scoped_release> released;
  if (PyGILState_Check()) // not within an op, for which torch has given it up
    released.emplace();
  wait();
}

bool PythonTrace::is_exchangeable(std::size_t node) {
  const WithGil gil;
  if (node == 0 && function_.bound_to()) // a method's instance
    return false;
  const auto found = std::ranges::find(flattened_.root_nodes, node);
  return found != flattened_.root_nodes.end() &&
         may_be_another(flattened_.roots[found - flattened_.root_nodes.begin()]);
}

std::string PythonTrace::expression(const std::string &where) {
  const WithGil gil;
  const Unobserved quiet;
  try {
    const auto find = py::module_::import("tracehost._reports.words.source").attr("expression");
    return py::cast<std::string>(find(where, function_.core->counters()->identity.definition.file));
  } catch (py::error_already_set &) {
    forget_exception();
    return {};
  }
}

bool PythonTrace::is_exit() {
  const WithGil gil;
  return is_exit_handled();
}

std::string PythonTrace::current_error() {
  const WithGil gil;
  try {
    throw;
  } catch (python_error &e) {
    const Owned text(PyObject_Str(e.value ? e.value : Py_None));
    const std::string type = e.type && PyType_Check(e.type)
                                 ? reinterpret_cast<PyTypeObject *>(e.type)->tp_name
                                 : "error";
    return type + ": " + utf8(text.get());
  } catch (const std::exception &e) {
    return e.what();
  }
}

bool PythonTrace::goes_on(trace::Rejection why) {
  // A side of an `if` of which the graph checks the condition is one outcome of several. A number
  // of a slot is an input after calls with others.
  const bool served =
      recorder_ && (recorder_->sides().is_checked() || recorder_->paths().numbers().any());
  if (request_ || (!call_.goes_on(why) && !served))
    return false;
  call_.abandoned = {why, text(here())};
  return true;
}

bool PythonTrace::serves_once(const std::string &what) {
  if (!recorder_ || request_)
    return false;
  recorder_->paths().serves_once(what);
  return true;
}

void PythonTrace::reject(trace::Rejection why, const std::string &message) {
  const WithGil gil;
  PyObject *type = why == trace::Rejection::value_read || why == trace::Rejection::limit
                       ? errors().value_read
                   : why == trace::Rejection::staging ? errors().staging
                   : why == trace::Rejection::capture ? errors().capture
                                                      : errors().trace;
  raise(type, message);
}

} // namespace tracehost::python
