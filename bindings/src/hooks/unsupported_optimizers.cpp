#include "hooks/unsupported_optimizers.h"

#include "base/errors.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"
#include "trace/tracer.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace tracehost::python {

void check_optimizer(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const Owned held(reinterpret_cast<PyObject *>(code));
  if (origin_of(code) != Origin::torch ||
      !std::string_view(utf8(code->co_filename)).ends_with("/torch/optim/lbfgs.py"))
    return;
  trace::reject(
      trace::Rejection::trace,
      fmt::format("the body runs torch.optim.LBFGS at {}, which chooses its next step by numbers "
                  "that it computes. Call its step() outside of the function, with a function "
                  "that computes the loss.",
                  text(user_line())));
}

} // namespace tracehost::python
