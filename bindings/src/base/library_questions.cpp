#include "base/library_questions.h"

#include "base/known.h"
#include "base/object.h"

#include <torch/csrc/autograd/python_variable.h>

#include <string_view>

namespace tracehost::python {
namespace {

struct Question {
  std::string_view module, function; ///< `__name__` of the globals, and of the code
  const char *tensor;                ///< the argument that it is about
};

constexpr Question kQuestions[] = {{"transformers.utils.import_utils", "is_tracing", "tensor"}};

/// From torch.jit.is_tracing() up to the question.
constexpr int kFramesBetween = 4;

bool is_on_device(PyFrameObject *frame, const char *name) {
  const Owned locals(PyFrame_GetLocals(frame));
  PyObject *value =
      locals && PyDict_Check(locals.get()) ? PyDict_GetItemString(locals.get(), name) : nullptr;
  return value && is_tensor(value) && !THPVariable_Unpack(value).is_cpu();
}

bool is_asked_in(PyFrameObject *frame) {
  const Owned code(reinterpret_cast<PyObject *>(PyFrame_GetCode(frame)));
  const Owned globals(PyFrame_GetGlobals(frame));
  PyObject *module = PyDict_GetItemString(globals.get(), "__name__");
  const std::string_view function = utf8(reinterpret_cast<PyCodeObject *>(code.get())->co_name);
  for (const Question &question : kQuestions)
    if (function == question.function && module && PyUnicode_Check(module) &&
        utf8(module) == question.module)
      return is_on_device(frame, question.tensor);
  return false;
}

} // namespace

bool is_asked_about_device() {
  const KeepError keep;
  Owned frame(reinterpret_cast<PyObject *>(PyThreadState_GetFrame(PyThreadState_Get())));
  for (int i = 0; frame && i < kFramesBetween; ++i) {
    auto *now = reinterpret_cast<PyFrameObject *>(frame.get());
    if (is_asked_in(now))
      return true;
    frame = Owned(reinterpret_cast<PyObject *>(PyFrame_GetBack(now)));
  }
  return false;
}

} // namespace tracehost::python
