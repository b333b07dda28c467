#include "hooks/callbacks.h"

#include "base/errors.h"
#include "base/object.h"
#include "base/user_line.h"
#include "hooks/profile.h"
#include "program/nodes.h"
#include "trace/block.h"
#include "trace/call.h"
#include "trace/tracer.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tracehost::python {

namespace py = pybind11;

PythonCallback::PythonCallback(std::string name, std::vector<Result> results, PyObject *object)
    : Callback(std::move(name), std::move(results)), object_(Py_NewRef(object)) {}

PythonCallback::~PythonCallback() {
  if (!python_alive())
    return;
  const WithGil gil;
  Py_DECREF(object_);
}

namespace {

/// Requires: GIL held.
std::vector<at::Tensor> call_object(PyObject *object, const std::vector<at::Tensor> &inputs) {
  Owned given(PyList_New(static_cast<Py_ssize_t>(inputs.size())));
  if (!given)
    rethrow();
  for (std::size_t i = 0; i < inputs.size(); ++i)
    PyList_SET_ITEM(given.get(), i, THPVariable_Wrap(inputs[i]));
  const Owned made(PyObject_CallOneArg(object, given.get()));
  if (!made)
    rethrow();
  std::vector<at::Tensor> outputs;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(made.get()); ++i)
    outputs.push_back(THPVariable_Unpack(PyList_GET_ITEM(made.get(), i)));
  return outputs;
}

} // namespace

std::vector<at::Tensor> PythonCallback::call(std::vector<at::Tensor> inputs) {
  const WithGil gil;
  return call_object(object_, inputs);
}

int PythonCallback::traverse(visitproc visit, void *arg) const {
  if (c10::raw::intrusive_ptr::use_count(const_cast<PythonCallback *>(this)) <= owners)
    Py_VISIT(object_);
  return 0;
}

std::vector<const PythonCallback *> callbacks_of(const torch::jit::Block &block) {
  std::vector<const PythonCallback *> found;
  each_node(&block, [&](const torch::jit::Node *node) {
    if (is_call(*node))
      if (const auto *call = dynamic_cast<const PythonCallback *>(callback_of(*node).get()))
        found.push_back(call);
  });
  return found;
}

namespace {

using Tensors = std::vector<at::Tensor>;
using Declared = std::vector<std::pair<py::object, std::optional<std::vector<py::object>>>>;

std::vector<Callback::Result> results_of(const Declared &declared) {
  std::vector<Callback::Result> results;
  for (const auto &[dtype, shape] : declared) {
    Callback::Result result{reinterpret_cast<THPDtype *>(dtype.ptr())->scalar_type, {}};
    if (shape) {
      result.sizes.emplace();
      for (const py::object &size : *shape)
        result.sizes->push_back(size.is_none() ? std::nullopt
                                               : std::optional(py::cast<std::int64_t>(size)));
    }
    results.push_back(std::move(result));
  }
  return results;
}

/// In a trace without data: what its results would be like.
Tensors fake_tensors(const Callback &callback, const Tensors &inputs) {
  bool differentiable = false;
  for (const at::Tensor &t : inputs)
    differentiable |= t.requires_grad() && at::GradMode::is_enabled();
  Tensors outputs;
  for (const Callback::Result &result : callback.results) {
    if (!result.is_exact())
      trace::reject(
          trace::Rejection::trace,
          fmt::format("py_function '{}' at {} is not called in a trace without example data "
                      "(get_concrete_function, warm_up), so the sizes of its results are not "
                      "known. Give it shape=, without None, or call the function once with such "
                      "arguments instead.",
                      callback.name, text(user_line())));
    std::vector<std::int64_t> sizes;
    for (const auto &size : *result.sizes)
      sizes.push_back(*size);
    const trace::Paused paused; // the request's mode gives it no data
    outputs.push_back(
        at::empty(sizes, at::TensorOptions()
                             .dtype(result.dtype)
                             .device(inputs.empty() ? at::Device(at::kCPU) : inputs[0].device())));
    if (differentiable && (outputs.back().is_floating_point() || outputs.back().is_complex()))
      outputs.back().set_requires_grad(true);
  }
  return outputs;
}

/// Calls the object once, with real tensors: the trace is a run. `name`: for the message to a body
/// that continues after an exception.
Tensors call_at_trace(PyObject *object, const Tensors &inputs, const std::string &name) {
  Tensors outputs;
  try {
    const Profile::InCall in_call;
    const trace::Called called;
    outputs = call_object(object, inputs);
  } catch (...) {
    trace::note_raised(
        fmt::format("{} at {} raised, and the body caught that and continued: a later call would "
                    "not call it at all. Catch the exception in the function that is called.",
                    name, text(user_line())));
    throw;
  }
  // It may return a tensor that the body knows, at this call only.
  const trace::Paused paused;
  for (at::Tensor &t : outputs) {
    if (t.layout() != at::kStrided)
      continue;
    const at::Tensor returned = std::exchange(t, t.alias());
    if (std::any_of(inputs.begin(), inputs.end(),
                    [&](const at::Tensor &input) { return input.is_same(returned); }))
      trace::may_be_another(t, returned);
  }
  return outputs;
}

/// `call` calls `object`, which is then recorded as what `made` makes of the results. Requires:
/// recording.
template <class Call, class Made>
Tensors run_and_record(const py::object &object, const Tensors &inputs, const Call &call,
                       const Made &made) {
  Tensors outputs;
  bool called = false;
  try {
    trace::prepare_call(inputs);
    outputs = call();
    called = true;
    trace::record_call(made(outputs), inputs, outputs);
  } catch (const trace::Abandoned &) {
    if (!called)
      outputs = call_object(object.ptr(), inputs);
  }
  return outputs;
}

Tensors record_call(const py::object &object, const Tensors &inputs, const std::string &name,
                    const Declared &declared) {
  const auto callback =
      c10::make_intrusive<PythonCallback>(name, results_of(declared), object.ptr());
  const auto call = [&] {
    return trace::without_data()
               ? fake_tensors(*callback, inputs)
               : call_at_trace(object.ptr(), inputs, "py_function '" + name + "'");
  };
  return run_and_record(object, inputs, call, [&](const Tensors &) { return callback; });
}

/// As record_call, for an object whose results are known only after it ran. It is called in a trace
/// without data, too.
Tensors record_foreign(const py::object &object, const Tensors &inputs, const std::string &name) {
  const auto made = [&](const Tensors &outputs) {
    std::vector<Callback::Result> results;
    for (const at::Tensor &t : outputs) {
      results.push_back({t.scalar_type(), {}});
      if (!trace::has_dynamic_sizes())
        results.back().sizes.emplace(t.sizes().begin(), t.sizes().end());
    }
    return c10::make_intrusive<PythonCallback>(name, std::move(results), object.ptr());
  };
  return run_and_record(
      object, inputs, [&] { return call_at_trace(object.ptr(), inputs, name); }, made);
}

} // namespace

void add_callbacks(py::module_ &module) {
  module.def("record_call", &record_call);
  module.def("record_foreign", &record_foreign);
  // Calls what computes nothing of the graph.
  module.def("unrecorded",
             [](const py::function &f, const py::args &args, const py::kwargs &kwargs) {
               const trace::Paused paused;
               return f(*args, **kwargs);
             });
  module.def("here", [] { return text(user_line()); });
}

} // namespace tracehost::python
