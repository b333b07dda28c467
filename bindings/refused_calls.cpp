#include "refused_calls.h"

#include "frames.h"
#include "guards/gil.h"
#include "guards/known.h"
#include "origin.h"

#include <fmt/format.h>

#include <string_view>

namespace tracehost::python {
namespace {

constexpr std::string_view kTransform =
    "the body uses a torch.func transform (vmap, grad, jvp ...) at {}, which is not recorded in a "
    "graph. Call it outside of the function.";
constexpr std::string_view kForward =
    "the body uses forward-mode AD (dual_level) at {}, which is not recorded in a graph. Put "
    "dual_level around the call.";
constexpr std::string_view kMode = "the body enters a TorchDispatchMode at {}, which a graph does "
                                   "not honour. Do it outside of the "
                                   "function.";
constexpr std::string_view kSaved =
    "the body packs tensors that are saved for backward (saved_tensors_hooks) at {}, which is not "
    "recorded in a graph. Put the hooks around the call.";
constexpr std::string_view kHook =
    "a hook of the backward pass is registered at {} (register_full_backward_hook of a module?), "
    "which is not recorded in a graph. Remove it, or call what has it outside of the function.";
constexpr std::string_view kCompiled =
    "the body calls a function that torch.compile has made, at {}; one graph can't hold the other. "
    "Call what it was made from, or call it outside of the function.";

constexpr std::string_view kDefaultDevice =
    "the body changes a setting of the whole process (set_default_device) at {}, which is not "
    "recorded in a graph. Use `with torch.device(...):`, or change it outside of the function.";

struct Refused {
  std::string_view name;
  std::string_view why;
};
constexpr Refused kRefused[] = {
    {"_enter_dual_level", kForward},         {"_push_on_torch_dispatch_stack", kMode},
    {"_vmap_increment_nesting", kTransform}, {"_grad_increment_nesting", kTransform},
    {"_jvp_increment_nesting", kTransform},  {"_func_increment_nesting", kTransform},
};

/// Whether `self` of the method that `frame` runs is of a class of torch's: checkpointing and
/// save_on_cpu change where saved tensors are, not what they are.
bool is_torchs_own(PyFrameObject *frame) {
  const KeepError keep;
  const Owned locals(PyObject_GetAttrString(reinterpret_cast<PyObject *>(frame), "f_locals"));
  const Owned self(locals ? PyMapping_GetItemString(locals.get(), "self") : nullptr);
  const bool own = self && is_library(origin_of_type(Py_TYPE(self.get()))) &&
                   std::string_view(Py_TYPE(self.get())->tp_name) != "saved_tensors_hooks";
  PyErr_Clear();
  return own;
}

/// A node of autograd's graph, what `Tensor.grad_fn` is.
bool is_grad_fn(PyObject *object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return name.ends_with("Backward") || name.find("Backward") != name.npos ||
         name.ends_with("AccumulateGrad");
}

std::string said(std::string_view why) { return fmt::format(fmt::runtime(why), text(user_line())); }

} // namespace

std::string why_refused(PyObject *function, PyFrameObject *frame) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(function)->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(function);
  if (name == "_push_saved_tensors_default_hooks")
    return is_torchs_own(frame) ? std::string() : said(kSaved);
  if ((name == "register_hook" || name == "register_prehook") && self && is_grad_fn(self))
    return said(kHook);
  for (const Refused &refused : kRefused)
    if (name == refused.name)
      return said(refused.why);
  return {};
}

std::string why_refused(PyFrameObject *frame) {
  PyCodeObject *code = PyFrame_GetCode(frame);
  const bool torchs = origin_of(code) == Origin::torch;
  const std::string_view name = torchs ? utf8(code->co_qualname) : "";
  std::string why;
  if (name == "set_default_device")
    why = said(kDefaultDevice);
  else if (name == "BackwardHook.setup_input_hook" || name == "BackwardHook.setup_output_hook")
    why = said(kHook);
  else if (name.ends_with(".compile_wrapper"))
    why = said(kCompiled);
  Py_DECREF(code);
  return why;
}

} // namespace tracehost::python
