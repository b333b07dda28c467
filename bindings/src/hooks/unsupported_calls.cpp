#include "hooks/unsupported_calls.h"

#include "base/object.h"
#include "base/origin.h"
#include "base/user_line.h"

#include <torch/csrc/Generator.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
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
constexpr std::string_view kLbfgs =
    "the body runs torch.optim.LBFGS at {}, which chooses its next step by numbers that it "
    "computes. Call its step() outside of the function, with a function that computes the loss.";
constexpr std::string_view kSeed =
    "the body sets a random generator's state (Generator.{1}) at {0}, which is not recorded in a "
    "graph. Seed outside of the function.";
constexpr std::string_view kSetting =
    "the body changes a setting of the whole process ({1}) at {0}, which is not recorded in a "
    "graph. Change it outside of the function.";
constexpr std::string_view kSwap =
    "the body swaps two tensors (torch.utils.swap_tensors) at {}, which is not recorded in a "
    "graph. Do it outside of the function.";
constexpr std::string_view kJagged =
    "the body makes a nested tensor with layout=torch.jagged at {}, which is not recorded in a "
    "graph. Pad its rows (torch.nn.utils.rnn.pad_sequence), or make it outside of the function.";
constexpr std::string_view kMasked =
    "the body makes a MaskedTensor at {}, which is not recorded in a graph. Keep values and mask "
    "apart (torch.where), or make it outside of the function.";
constexpr std::string_view kProcesses =
    "the body calls torch.distributed.{} at {}, which is not recorded in a graph. {}";

struct Rejected {
  std::string_view name;
  std::string_view why;
};
constexpr Rejected kRejected[] = {
    {"_enter_dual_level", kForward},
    {"_push_on_torch_dispatch_stack", kMode},
    {"_vmap_increment_nesting", kTransform},
    {"_grad_increment_nesting", kTransform},
    {"_jvp_increment_nesting", kTransform},
    {"_func_increment_nesting", kTransform},
    {"_swap_tensor_impl", kSwap},
};

/// Functions of torch._C that change how ops of all threads work, by the start of their names.
constexpr std::string_view kSettings[] = {"_set_default_dtype", "_set_default_tensor_type",
                                          "_set_deterministic", "_set_cudnn",
                                          "_set_cublas",        "_set_sdp",
                                          "_set_math_sdp",      "_set_mkldnn",
                                          "_set_onednn",        "_set_nnpack",
                                          "_set_float32",       "_set_fp32",
                                          "_set_blas",          "_set_linalg",
                                          "_set_qengine",       "set_num_threads",
                                          "set_num_interop",    "set_flush_denormal",
                                          "_set_conj",          "_set_mkl"};

/// Methods of torch.Generator.
constexpr std::string_view kSeeds[] = {"manual_seed", "seed", "set_state", "set_offset",
                                       "graphsafe_set_state"};

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
bool is_torchs_own(const Frame &frame) {
  PyObject *self = local_named(frame, "self");
  return self && is_library(origin_of_type(Py_TYPE(self))) &&
         std::string_view(Py_TYPE(self)->tp_name) != "saved_tensors_hooks";
}

/// A node of autograd's graph, what `Tensor.grad_fn` is.
bool is_grad_fn(PyObject *object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return name.find("Backward") != name.npos || name.ends_with("AccumulateGrad");
}

std::string said(std::string_view why, std::string_view name = {}) {
  return fmt::format(fmt::runtime(why), text(user_line()), name);
}

} // namespace

std::string why_rejected(PyObject *function, const Frame &frame) {
  const std::string_view name = reinterpret_cast<PyCFunctionObject *>(function)->m_ml->ml_name;
  PyObject *self = PyCFunction_GET_SELF(function);
  if (std::ranges::find(kSeeds, name) != std::end(kSeeds) && self && THPGenerator_Check(self))
    return said(kSeed, name);
  if (name == "_push_saved_tensors_default_hooks")
    return is_torchs_own(frame) ? std::string() : said(kSaved);
  if ((name == "register_hook" || name == "register_prehook") && self && is_grad_fn(self))
    return said(kHook);
  for (const Rejected &rejected : kRejected)
    if (name == rejected.name)
      return said(rejected.why);
  const auto begins_name = [name](std::string_view start) { return name.starts_with(start); };
  return std::ranges::any_of(kSettings, begins_name) ? said(kSetting, name) : std::string();
}

std::string why_rejected(const Frame &frame) {
  if (origin_of(frame.code) != Origin::torch)
    return {};
  const std::string_view name = utf8(frame.code->co_qualname);
  const std::string_view file = utf8(frame.code->co_filename);
  if (name == "set_default_device")
    return said(kDefaultDevice);
  if (name == "swap_tensors" && file.ends_with("/torch/utils/__init__.py"))
    return said(kSwap); // before torch counts references, of which a trace has more
  if (name == "BackwardHook.setup_input_hook" || name == "BackwardHook.setup_output_hook")
    return said(kHook);
  if (file.ends_with("/nested/_internal/nested_tensor.py"))
    return said(kJagged);
  if (name == "MaskedTensor.__new__")
    return said(kMasked);
  if (name.ends_with(".compile_wrapper"))
    return said(kCompiled);
  if (name == "DistributedDataParallel.forward")
    return said(kReplicas);
  if (name == "FSDPState._pre_forward" || name == "FullyShardedDataParallel.forward")
    return said(kShards);
  if (file.ends_with("/torch/optim/lbfgs.py"))
    return said(kLbfgs);
  return file.ends_with("/distributed_c10d.py") ? why_alone(name) : std::string();
}

} // namespace tracehost::python
