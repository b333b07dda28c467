#include "python_call.h"

#include "conversion.h"
#include "errors.h"
#include "frames.h"
#include "guards/gil.h"

#include <torch/csrc/autograd/python_variable.h>

#include <fmt/format.h>

/// What a trace asks of Python while the body runs.

namespace tracehost::python {

Site PythonCall::here() {
  const WithGil gil;
  return user_line();
}

Site PythonCall::catches() {
  const WithGil gil;
  return catching_line(reinterpret_cast<PyFrameObject *>(outer_frame()));
}

std::string PythonCall::why_not_staged() {
  const WithGil gil;
  return Converting::now() ? why_not_converted() : "autograph is off";
}

std::string PythonCall::capture_path(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  const std::string line = text(user_line());
  if (!object || miss().births->has(object))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format(
            "a tensor used at {} was made during the trace by something that is not "
            "recorded (numpy, dlpack, another thread, a view of storage). Make it outside of "
            "the function, or by a torch op in it.",
            line));
  std::string path = miss().recorder->path_of(object);
  if (StandIns::is_class(Py_TYPE(object)))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format("a tensor used at {} only stands for one of another call, or of a branch or "
                    "loop that is staged, which it left through a container, an attribute or a "
                    "function's state. Assign it to a variable there (in each branch), or "
                    "collect values in a TensorArray.",
                    line));
  if (path.empty() && !Births::notes(Py_TYPE(object)))
    trace::refuse(
        trace::Refusal::capture,
        fmt::format(
            "a {} used at {} is reached by no path that tracehost can read again. Pass it as "
            "an argument.",
            Py_TYPE(object)->tp_name, line));
  miss().capture_metas.push_back(meta_of(object));
  return path.empty() ? "a tensor first used at " + line : path;
}

std::string PythonCall::path_of(const at::Tensor &tensor) {
  const WithGil gil;
  PyObject *object = object_of(tensor);
  return object ? miss().recorder->path_of(object) : std::string();
}

at::Tensor PythonCall::stand_in(const at::Tensor &tensor) {
  if (tensor.key_set().has(c10::DispatchKey::Python)) // the mode made it
    return tensor;
  const WithGil gil;
  return stand_ins_->twin(tensor);
}

void PythonCall::enter_stand_ins() {
  if (request_)
    return;
  const WithGil gil;
  const StandIns::AtWork mark;
  if (!staged_) {
    const Owned module(PyImport_ImportModule("tracehost._stand_ins"));
    Owned maker(module ? PyObject_CallMethod(module.get(), "Maker", nullptr) : nullptr);
    if (!maker)
      rethrow();
    staged_ = std::make_unique<Staged>();
    staged_->maker = std::move(maker);
  }
  if (staged_->depth == 0) {
    staged_->stand_ins.emplace(staged_->maker.get());
    staged_->entered.emplace(&*staged_->stand_ins);
    stand_ins_ = &*staged_->stand_ins;
    const Owned quiet(PyObject_CallMethod(staged_->maker.get(), "begin", nullptr));
    if (!quiet)
      rethrow();
  }
  ++staged_->depth;
}

void PythonCall::leave_stand_ins() {
  if (request_ || --staged_->depth > 0)
    return;
  const WithGil gil;
  stand_ins_ = nullptr;
  {
    const KeepError keep;
    const Owned loud(PyObject_CallMethod(staged_->maker.get(), "end", nullptr));
    PyErr_Clear();
  }
  staged_->entered.reset();
  staged_->stand_ins.reset();
}

void PythonCall::refuse(trace::Refusal why, const std::string &message) {
  const WithGil gil;
  PyObject *type = why == trace::Refusal::value_read ? errors().value_read
                   : why == trace::Refusal::staging  ? errors().staging
                   : why == trace::Refusal::capture  ? errors().capture
                                                     : errors().trace;
  raise(type, message);
}

} // namespace tracehost::python
