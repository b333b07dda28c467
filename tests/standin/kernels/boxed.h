#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

/// The kernels that take the place of PyTorch's CUDA kernels.
namespace standin {

/// For each op but copy_: runs the CPU's kernel on the device's memory.
void run_boxed(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

/// For copy_: the one op that works across devices.
at::Tensor &copy(at::Tensor &self, const at::Tensor &source, bool non_blocking);

} // namespace standin
