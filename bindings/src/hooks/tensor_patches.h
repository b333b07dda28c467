#pragma once

/// Accessors of torch.Tensor that bypass the dispatcher, or that libtorch's tracer answers with
/// traced sizes: replaced once, at import, by descriptors that test a thread-local flag and call
/// the original (a few ns). Only while this thread records do they act:
///
///   size shape numel nelement        ints as eager, traced sizes for dynamic dimensions
///   is_leaf grad_fn                  the original's answer; it becomes part of the signature
///   stride is_contiguous ...         layout_patches.h
///   tolist numpy data_ptr ...        ValueReadError with the line
///   data requires_grad_ ...          tracehost's own ops, as torch has no such op
///   grad retain_grad                 an op of the graph's (trace/gradients.h)
///   repr, format without a spec      dtype and shape
///
/// torch._C._get_tracing_state and _is_tracing answer "no" in our traces: torch's own Python code
/// then takes eager's way, not the one written for traced sizes.

namespace tracehost::python {

/// Requires: GIL held; torch imported. Throws if torch lacks one of the accessors.
void install_tensor_patches();

} // namespace tracehost::python
