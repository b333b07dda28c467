#include "hooks/unsupported_calls.h"

#include "base/known.h"
#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"

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

constexpr std::string_view kReplicas =
    "the body calls a module in DistributedDataParallel at {}; a graph would not report the call "
    "to it, and each rank would train alone. Make the function of the module inside, before it is "
    "wrapped (net.forward = tracehost.function(net.forward)), and leave backward() outside.";
constexpr std::string_view kShards =
    "the body calls a module of FSDP at {}, whose parameters are gathered by hooks that are not "
    "recorded in a graph. Make the function of the module's forward, before it is sharded "
    "(net.forward = tracehost.function(net.forward)), and leave backward() outside.";
constexpr std::string_view kProcesses =
    "the body calls torch.distributed.{} at {}, which is not recorded in a graph. {}";

struct Rejected {
  std::string_view name;
  std::string_view why;
};
constexpr Rejected kRejected[] = {
    {"_enter_dual_level", kForward},         {"_push_on_torch_dispatch_stack", kMode},
    {"_vmap_increment_nesting", kTransform}, {"_grad_increment_nesting", kTransform},
    {"_jvp_increment_nesting", kTransform},  {"_func_increment_nesting", kTransform},
};

struct OfProcesses {
  std::string_view functions; ///< of torch.distributed, with a space between
  std::string_view remedy;
};
constexpr OfProcesses kOfProcesses[] = {
    {" send recv isend irecv batch_isend_irecv send_object_list recv_object_list ",
     "Call it outside of the function, or exchange tensors by all_to_all_single."},
    {" barrier monitored_barrier init_process_group destroy_process_group new_group "
     "new_subgroups _coalescing_manager ",
     "Call it outside of the function."},
    {" all_gather_object gather_object broadcast_object_list scatter_object_list ",
     "Call it outside of the function, and pass what it gives."},
    {" reduce ", "Use all_reduce, or call it outside of the function."},
    {" gather ", "Use all_gather, or call it outside of the function."},
    {" scatter ", "Use broadcast, or call it outside of the function."},
    {" reduce_scatter ", "Use reduce_scatter_tensor, or call it outside of the function."},
    {" all_to_all ", "Use all_to_all_single, or call it outside of the function."},
    {" all_reduce_coalesced all_gather_coalesced ",
     "Call all_reduce or all_gather for each tensor, or call it outside of the function."},
};

/// Why a function of torch.distributed can't be in a graph; empty: it can.
std::string why_alone(std::string_view name) {
  for (const OfProcesses &rejected : kOfProcesses)
    if (rejected.functions.find(fmt::format(" {} ", name)) != std::string_view::npos)
      return fmt::format(kProcesses, name, text(user_line()), rejected.remedy);
  return {};
}

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

std::string why_rejected(PyObject *function, PyFrameObject *frame) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(function)->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(function);
  if (name == "_push_saved_tensors_default_hooks")
    return is_torchs_own(frame) ? std::string() : said(kSaved);
  if ((name == "register_hook" || name == "register_prehook") && self && is_grad_fn(self))
    return said(kHook);
  for (const Rejected &rejected : kRejected)
    if (name == rejected.name)
      return said(rejected.why);
  return {};
}

std::string why_rejected(PyFrameObject *frame) {
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
  else if (name == "DistributedDataParallel.forward")
    why = said(kReplicas);
  else if (name == "FSDPState._pre_forward" || name == "FullyShardedDataParallel.forward")
    why = said(kShards);
  else if (torchs && std::string_view(utf8(code->co_filename)).ends_with("/distributed_c10d.py"))
    why = why_alone(name);
  Py_DECREF(code);
  return why;
}

} // namespace tracehost::python
