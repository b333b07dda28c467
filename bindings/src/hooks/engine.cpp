#include "hooks/engine.h"

#include "base/errors.h"
#include "base/object.h"
#include "base/user_line.h"
#include "hooks/profile.h"
#include "trace/call.h"
#include "trace/eager_region.h"
#include "trace/gradients.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

#include <array>

namespace tracehost::python {

namespace py = pybind11;

namespace {

/// The tensors of a tuple, undefined for None. Any other item is unsupported.
std::vector<at::Tensor> tensors_of(PyObject *tuple) {
  std::vector<at::Tensor> result;
  const Owned items(PySequence_Tuple(tuple));
  if (!items)
    rethrow();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject *item = PyTuple_GET_ITEM(items.get(), i);
    if (item != Py_None && !THPVariable_Check(item))
      trace::reject(trace::Rejection::trace,
                    fmt::format("backward() or autograd.grad() at {} is given a {}, which is not "
                                "recorded in a graph. Give it the tensor.",
                                text(user_line()), Py_TYPE(item)->tp_name));
    result.push_back(item == Py_None ? at::Tensor() : THPVariable_Unpack(item));
  }
  return result;
}

/// As torch's own parser reads the arguments; throws where they do not fit.
EngineCall parse(PyObject *args, PyObject *kwargs) {
  PyObject *roots = nullptr, *grads = nullptr, *inputs = nullptr;
  int retain = 0, create = 0, unreachable = 0, accumulate = 0;
  static constexpr std::array<const char *, 8> names = {
      "tensors", "grad_tensors",      "keep_graph",      "create_graph",
      "inputs",  "allow_unreachable", "accumulate_grad", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOpp|Opp", const_cast<char **>(names.data()),
                                   &roots, &grads, &retain, &create, &inputs, &unreachable,
                                   &accumulate))
    rethrow();
  EngineCall call{tensors_of(roots), tensors_of(grads), {}};
  if (inputs)
    call.inputs = tensors_of(inputs);
  call.retain_graph = retain;
  call.create_graph = create;
  call.allow_unused = unreachable;
  call.accumulates = accumulate;
  return call;
}

/// The engine uses what the trace made: a block that runs once can't.
void check_in_eager_region(const EngineCall &call) {
  for (const auto *tensors : {&call.roots, &call.grads, &call.inputs})
    for (const at::Tensor &t : *tensors)
      if (t.defined() && trace::is_traced(t))
        trace::reject(trace::Rejection::trace,
                      fmt::format("backward() or autograd.grad() of a traced tensor in init_scope "
                                  "at {}: the block runs once, at the trace. Move it out of the "
                                  "block.",
                                  text(user_line())));
}

/// Runs the engine for real: the trace is a run. Null with an error set if that fails.
PyObject *run_at_trace(PyObject *original, PyObject *args, PyObject *kwargs) {
  const std::string where = text(user_line());
  PyObject *result = nullptr;
  {
    const Profile::InCall in_call;
    const trace::Called called;
    result = PyObject_Call(original, args, kwargs);
  }
  if (!result)
    trace::note_raised(
        fmt::format("backward() or autograd.grad() raised at {}, and the body caught that and "
                    "continued: a graph can't catch what its ops raise. Move the attempt out of "
                    "the function.",
                    where));
  return result;
}

PyObject *recorded(PyObject *original, PyObject *args, PyObject *kwargs) {
  EngineCall call;
  try {
    call = parse(args, kwargs);
    if (trace::in_eager_region()) {
      check_in_eager_region(call);
      return PyObject_Call(original, args, kwargs);
    }
    trace::prepare_engine_call(call);
  } catch (const trace::Abandoned &) {
    return PyObject_Call(original, args, kwargs);
  }
  Owned result(run_at_trace(original, args, kwargs));
  if (!result)
    return nullptr;
  try {
    trace::record_engine_call(call, call.accumulates ? std::vector<at::Tensor>()
                                                     : tensors_of(result.get()));
  } catch (const trace::Abandoned &) { // it has run
  }
  return result.release();
}

py::object run_backward(const py::object &original, const py::tuple &args, const py::dict &kwargs) {
  Profile::in_side(Sides::Kind::call, "computes gradients");
  PyObject *result = trace::guarded() ? recorded(original.ptr(), args.ptr(), kwargs.ptr())
                                      : PyObject_Call(original.ptr(), args.ptr(), kwargs.ptr());
  if (!result)
    rethrow();
  return py::reinterpret_steal<py::object>(result);
}

} // namespace

void add_engine(py::module_ &module) { module.def("run_backward", &run_backward); }

} // namespace tracehost::python
