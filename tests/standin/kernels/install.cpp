#include "boxed.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string_view>
#include <unordered_set>

/// Registers the kernels for the ops that have one for CUDA and one for the CPU. What only CUDA
/// has, such as cuDNN's ops, is left alone: its logic on the host works, and its launch of a kernel
/// fails.
namespace {

// Their kernels make views, memory or decisions, and read no memory of the device.
const std::unordered_set<std::string_view> kKept = {
    "aten::_efficientzerotensor",
    "aten::_fused_sdp_choice",
    "aten::_reshape_alias",
    "aten::alias",
    "aten::as_strided",
    "aten::empty",
    "aten::empty_quantized",
    "aten::empty_strided",
    "aten::is_set_to",
    "aten::record_stream",
    "aten::resize_",
    "aten::set_",
    "aten::unfold",
    "aten::view",
    "aten::view_as_complex",
    "aten::view_as_real",
};

bool is_replaced(const c10::OperatorHandle &op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) &&
         op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU) &&
         !kKept.count(op.schema().name());
}

/// PyTorch warns of each kernel that is registered over another one.
class Silent : public c10::WarningHandler {
public:
  void process(const c10::Warning &) override {}
};

} // namespace

/// Returns the number of ops. Requires: PyTorch's CUDA libraries are loaded. To be called once.
extern "C" int standin_install() {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  auto &dispatcher = c10::Dispatcher::singleton();
  // Never destroyed: other libraries' registrations may go first when the process ends.
  static auto *registered = new std::vector<c10::RegistrationHandleRAII>;
  for (const c10::OperatorName &name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !is_replaced(*op))
      continue;
    registered->push_back(
        dispatcher.registerImpl(name, c10::DispatchKey::CUDA,
                                c10::KernelFunction::makeFromBoxedFunction<&standin::run_boxed>(),
                                std::nullopt, nullptr, "standin"));
  }
  static auto *library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  library->impl("copy_", TORCH_FN(standin::copy));
  return static_cast<int>(registered->size());
}
