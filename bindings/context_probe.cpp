#include "context_probe.h"

#include "errors.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

[[noreturn]] void refuse_mode(const std::string &mode) {
  raise(errors().trace,
        fmt::format("a Function was called under {}, which a graph does not honour. "
                    "Call it outside of that mode, or call its python_function.",
                    mode));
}

[[gnu::cold]] std::int32_t default_device() {
  const py::list modes =
      py::module_::import("torch.overrides").attr("_get_current_function_mode_stack")();
  const py::object device_context =
      py::module_::import("torch.utils._device").attr("DeviceContext");
  std::int32_t device = 0;
  for (const py::handle mode : modes) {
    if (!py::isinstance(mode, device_context))
      refuse_mode("the TorchFunction mode " + std::string(Py_TYPE(mode.ptr())->tp_name));
    const auto d = reinterpret_cast<THPDevice *>(mode.attr("device").ptr())->device;
    device = static_cast<std::int32_t>(d.type()) << 8 | (d.index() + 1);
  }
  return device;
}

} // namespace

Context probe_context() {
  Context context = Context::now();
  if (at::impl::PythonTorchFunctionTLS::stack_len() > 0) [[unlikely]]
    context.default_device = default_device();
  if (c10::impl::TorchDispatchModeTLS::stack_len() > 0) [[unlikely]]
    refuse_mode("a TorchDispatch mode");
  if (c10::DispatchKeySet(c10::DispatchKeySet::RAW, context.included)
          .has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) [[unlikely]]
    refuse_mode("a functorch transform (vmap, grad, ...)");
  return context;
}

} // namespace tracehost::python
