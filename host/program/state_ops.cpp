#include <ATen/core/Tensor.h>
#include <torch/library.h>

/// Ops of tracehost for what Python does to a tensor's object and torch has no op for, or
/// TorchScript has none:
///
///     tracehost::view_dtype(Tensor(a) t, ScalarType dtype) -> Tensor(a)    t.view(dtype)
///     tracehost::data(Tensor(a) t) -> Tensor(a)                  t.data
///     tracehost::set_data(Tensor(a!) t, Tensor data) -> ()       t.data = data
///     tracehost::requires_grad_(Tensor(a!) t, bool on) -> ()     t.requires_grad_(on)
///
/// They are ordinary ops, so that the hook and the tracer see them; without a step for autograd.

namespace tracehost {
namespace {

/// Not detach(): a write to t.data is unknown to what was saved for backward.
at::Tensor data(const at::Tensor &t) { return t.variable_data(); }

at::Tensor view_dtype(const at::Tensor &t, at::ScalarType dtype) { return t.view(dtype); }

void set_data(const at::Tensor &t, const at::Tensor &data) { t.set_data(data); }

void set_requires_grad(const at::Tensor &t, bool on) { t.requires_grad_(on); }

TORCH_LIBRARY_FRAGMENT(tracehost, m) {
  m.def("data(Tensor(a) t) -> Tensor(a)",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(data)));
  m.def("view_dtype(Tensor(a) t, ScalarType dtype) -> Tensor(a)",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(view_dtype)));
  m.def("set_data(Tensor(a!) t, Tensor data) -> ()",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(set_data)));
  m.def("requires_grad_(Tensor(a!) t, bool on) -> ()",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(set_requires_grad)));
}

} // namespace
} // namespace tracehost
