#include "call/context_probe.h"

#include "base/errors.h"
#include "call/plain_calls.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/Device.h>

#include <fmt/format.h>
#include <pybind11/pybind11.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

[[gnu::cold]] std::int32_t default_device() {
  const py::list modes =
      py::module_::import("torch.overrides").attr("_get_current_function_mode_stack")();
  const py::object device_context =
      py::module_::import("torch.utils._device").attr("DeviceContext");
  std::int32_t device = 0;
  for (const py::handle mode : modes) {
    if (!py::isinstance(mode, device_context))
      throw RunsPlain{"the TorchFunction mode " + std::string(Py_TYPE(mode.ptr())->tp_name)};
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
  const c10::DispatchKeySet included(c10::DispatchKeySet::RAW, context.included);
  if (included.has(c10::DispatchKey::Python) && c10::impl::TorchDispatchModeTLS::stack_len() > 0)
      [[unlikely]] // such a mode includes the key
    throw RunsPlain{"a TorchDispatch mode (make_fx, torch.export, fake tensors ...)"};
  if (included.has(c10::DispatchKey::FuncTorchDynamicLayerFrontMode)) [[unlikely]]
    throw RunsPlain{"a functorch transform (vmap, grad, ...)"};
  return context;
}

Context require_context() {
  try {
    return probe_context();
  } catch (const RunsPlain &plain) {
    raise(errors().trace,
          fmt::format("a graph was asked for under {}, which it does not honour. Ask for it "
                      "outside of that mode, or call the function's python_function.",
                      plain.around));
  }
}

} // namespace tracehost::python
