#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace tracehost {

/// Flags of cuDNN (`torch.backends.cudnn.enabled`, `.benchmark`, `.deterministic`, `.allow_tf32`)
/// that the tracer records as constants of an op on a CUDA device: from here on a run reads them,
/// as eager does. `aten::_convolution` becomes `aten::convolution`, which has no flags; batch and
/// instance norms get `tracehost::cudnn_enabled`. Requires: types have the traced call's devices.
void read_device_flags(torch::jit::Block *block);

} // namespace tracehost
