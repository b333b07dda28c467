#include "optimizers.h"

#include "errors.h"
#include "frames.h"
#include "guards/gil.h"
#include "origin.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_set>

namespace tracehost::python {
namespace {

/// Files of torch/optim whose code may run in a body.
const std::unordered_set<std::string_view> kRecorded = {"optimizer.py", "sgd.py", "adam.py",
                                                        "adamw.py"};

/// A local variable's truth, at the call: an argument's.
bool is_true(PyFrameObject *frame, const char *name) {
  const KeepError keep;
  const Owned locals(PyFrame_GetLocals(frame));
  const Owned value(locals ? PyMapping_GetItemString(locals.get(), name) : nullptr);
  const bool result = value && PyObject_IsTrue(value.get()) == 1;
  PyErr_Clear();
  return result;
}

[[noreturn]] void refuse(const std::string &what, const std::string &cure) {
  trace::refuse(trace::Refusal::trace,
                fmt::format("the body runs {} at {}, which {}", what, text(user_line()), cure));
}

/// `name` is the one of a function of torch/optim/adam.py.
void check_adam(PyFrameObject *frame, std::string_view name) {
  if ((name == "_single_tensor_adam" || name == "_multi_tensor_adam") &&
      !is_true(frame, "capturable"))
    refuse(is_true(frame, "decoupled_weight_decay") ? "torch.optim.AdamW" : "torch.optim.Adam",
           "reads its step count as a number at each step: a graph can't. Make the optimizer with "
           "fused=True, or on a GPU with capturable=True.");
}

} // namespace

void check_optimizer(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const Owned held(reinterpret_cast<PyObject *>(code));
  if (origin_of(code) != Origin::torch)
    return;
  const std::string_view file = utf8(code->co_filename);
  constexpr std::string_view kFolder = "/torch/optim/";
  const auto folder = file.find(kFolder);
  if (folder == std::string_view::npos)
    return;
  const std::string_view name = utf8(code->co_qualname);
  const std::string_view module = file.substr(folder + kFolder.size());
  if (module == "adam.py")
    return check_adam(frame, name);
  if (kRecorded.contains(module))
    return;
  const std::string owner_name(name.substr(0, name.find('.')));
  if (module == "lr_scheduler.py" && name.find("<locals>") != std::string_view::npos)
    return; // a scheduler's wrapper of an optimizer's step
  if (module == "lr_scheduler.py" || module == "swa_utils.py")
    refuse(fmt::format("torch.optim.{}.{}", module.substr(0, module.find('.')), name),
           "changes Python state that later calls would not. Call it outside of the function: a "
           "learning rate that it sets is seen at the next call.");
  refuse("torch.optim." + owner_name,
         "is not supported in a function. Use SGD, Adam or AdamW, or call its step() outside of "
         "the function.");
}

} // namespace tracehost::python
