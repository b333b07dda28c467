#include "call/plain_calls.h"

#include "base/forget_error.h"
#include "base/lazy.h"
#include "base/object.h"
#include "base/origin.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/PyInterpreter.h>

#include <string_view>
#include <utility>

namespace tracehost::python {
namespace {

thread_local const PythonFunction *traced_ahead = nullptr;

/// A function of a module, asked at each miss. A call that backs off pays for the look-up of both
/// names, so they are interned.
struct Asked {
  Asked(const char *module_name, const char *function_name)
      : module(PyUnicode_InternFromString(module_name)),
        function(PyUnicode_InternFromString(function_name)) {}
  PyObject *module, *function;
};

/// What the function answers when it is called with nothing; null where the module is not imported.
/// Leaves no error.
Owned answer_of(const Asked &asked) {
  PyObject *module = PyDict_GetItem(PyImport_GetModuleDict(), asked.module); // borrowed
  const KeepError keep;
  Owned answer(module ? PyObject_CallMethodNoArgs(module, asked.function) : nullptr);
  forget_error();
  return answer;
}

bool in_symbolic_trace() {
  static constinit Lazy<Asked> asked;
  return answer_of(asked([] {
           return Asked("torch.fx._symbolic_trace", "is_fx_symbolic_tracing");
         })).get() == Py_True;
}

/// torch.compile takes the frames of this thread, and so the body's.
bool is_compiling() {
  static constinit Lazy<Asked> asked;
  const Owned callback = answer_of(
      asked([] { return Asked("torch._C._dynamo.eval_frame", "get_eval_frame_callback"); }));
  return callback && PyCallable_Check(callback.get());
}

/// A trace synchronises, and reads values: it would end a capture of this thread's stream. The
/// body's ops belong to the capture.
bool is_capturing() {
  static constinit Lazy<Asked> is_initialized, is_capturing;
  const Owned used =
      answer_of(is_initialized([] { return Asked("torch.cuda", "is_initialized"); }));
  return used.get() == Py_True && answer_of(is_capturing([] {
                                    return Asked("torch.cuda", "is_current_stream_capturing");
                                  })).get() == Py_True;
}

bool in_checkpoint() {
  const auto hooks = at::SavedTensorDefaultHooks::get_hooks();
  if (!hooks)
    return false;
  const KeepError keep;
  const Owned module(PyObject_GetAttrString(hooks->first.ptr(getPyInterpreter()), "__module__"));
  forget_error();
  return module && std::string_view(utf8(module.get())) == "torch.utils.checkpoint";
}

} // namespace

TracedAhead::TracedAhead(const PythonFunction &function)
    : before_(std::exchange(traced_ahead, &function)) {}
TracedAhead::~TracedAhead() { traced_ahead = before_; }

void check_what_is_around(const PythonFunction &function) {
  if (in_symbolic_trace())
    throw RunsPlain{"torch.fx.symbolic_trace"};
  if (is_compiling())
    throw RunsPlain{};
  if (is_capturing())
    throw RunsPlain{"a capture of a CUDA graph"};
  if (!in_checkpoint())
    return;
  if (traced_ahead == &function)
    throw RunsPlain{"torch.utils.checkpoint"};
  throw TraceAhead{};
}

void check_what_is_passed(std::span<PyObject *const> tensors) {
  for (PyObject *tensor : tensors) {
    const std::string_view name = Py_TYPE(tensor)->tp_name;
    if (name == "FakeTensor" && origin_of_type(Py_TYPE(tensor)) == Origin::torch)
      throw RunsPlain{"FakeTensorMode (a fake tensor is passed)"};
  }
}

bool trace_ahead(PyObject *function, PyObject *const *args, std::size_t nargsf, PyObject *kwnames) {
  const bool before = at::SavedTensorDefaultHooks::set_tracing(true); // no hook runs
  const auto restore =
      c10::make_scope_exit([&] { at::SavedTensorDefaultHooks::set_tracing(before); });
  const Owned request(PyObject_GetAttrString(function, "get_concrete_function"));
  const Owned made(request ? PyObject_Vectorcall(request.get(), args,
                                                 nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, kwnames)
                           : nullptr);
  return static_cast<bool>(made);
}

} // namespace tracehost::python
