#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>

/// Which ops a tape can have: those whose effects their schemas say. A tape runs again where it
/// ended early, and reads its inputs without autograd. So an op must not draw, write to an input,
/// or ask a tensor for more than sizes and values.

namespace tracehost::tape {

/// Why a tape can't have the op, `aten::rand draws`; empty: it can. A block is none's business
/// here.
std::string why_not(const torch::jit::Node &node);

/// Name and overload, `aten::mul.Tensor`.
std::string full_name(const c10::FunctionSchema &schema);

/// Whether an op writes to one of its arguments, by its schema.
bool writes(const torch::jit::Node &node);

/// Whether a graph enables or disables gradients: `aten::set_grad_enabled`.
bool switches_grad(const torch::jit::Graph &graph);

/// Whether the results that are no tensors are the same at all calls with the same sizes. Requires:
/// the arguments that are no tensors are.
bool is_fixed(const torch::jit::Node &node);

/// Whether the op gives memory that has no values yet.
bool is_uninitialized(const torch::jit::Node &node);

} // namespace tracehost::tape
