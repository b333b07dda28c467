#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>
#include <c10/util/ArrayRef.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>

/// Which graphs can be a CUDA graph: those whose calls with the same sizes launch the same kernels,
/// with arguments that the host does not compute from values.

namespace tracehost::capture {

/// Why a graph has no capture, `aten::nonzero waits for the device`.
struct Reason {
  std::string what;
  const torch::jit::Node *node = nullptr; ///< null: no single op is the reason
};

/// The first reason why calls with such inputs can't be captured on `device`; none: a capture can
/// be tried. Whether values and modes allow it is asked elsewhere (captures.h). Pure.
std::optional<Reason> not_capturable(const torch::jit::Graph &graph,
                                     c10::ArrayRef<c10::IValue> inputs, c10::Device device);

/// Ops that give new tensors: each launches a kernel or more. Those in blocks are among them.
std::size_t count_launches(const torch::jit::Block &block);

/// Whether an op of the block draws from a generator.
bool any_draws(const torch::jit::Block &block);

} // namespace tracehost::capture
