#include "optimizers.h"

#include "errors.h"
#include "frames.h"
#include "guards/gil.h"
#include "origin.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tracehost::python {
namespace {

[[noreturn]] void refuse(const std::string &what, const std::string &cure) {
  trace::refuse(trace::Refusal::trace,
                fmt::format("the body runs {} at {}, which {}", what, text(user_line()), cure));
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
  if (module == "lr_scheduler.py" && name.find("<locals>") != std::string_view::npos)
    return; // a scheduler's wrapper of an optimizer's step
  if (module == "lr_scheduler.py" || module == "swa_utils.py")
    refuse(fmt::format("torch.optim.{}.{}", module.substr(0, module.find('.')), name),
           "changes Python state that later calls would not. Call it outside of the function: a "
           "learning rate that it sets is seen at the next call.");
  if (module == "lbfgs.py")
    refuse("torch.optim.LBFGS",
           "chooses its next step by numbers that it computes. Call its step() outside of the "
           "function, with a function that computes the loss.");
}

} // namespace tracehost::python
