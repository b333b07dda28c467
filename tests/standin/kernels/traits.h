#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <vector>

/// What the boxed kernel must know of an op beside its name.
namespace standin {

struct Traits {
  bool is_random = false;
  bool takes_host_index = false;        ///< a CPU tensor of any size may stand beside CUDA tensors
  std::optional<std::size_t> generator; ///< the position of that argument
  std::vector<bool> is_out;             ///< for each argument: `out=`
  std::vector<bool> is_written;         ///< for each argument: in place or `out=`
};

/// Found once for each op.
const Traits &traits_of(const c10::OperatorHandle &op);

/// True if the real kernel makes the host wait for the device with such arguments, as it does for
/// results whose size depends on data.
bool waits(const c10::OperatorHandle &op, const torch::jit::Stack &arguments);

} // namespace standin
