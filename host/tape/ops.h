#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

/// Which ops a tape can have: those that do nothing but compute, write to tensors and draw. A tape
/// reads its inputs without autograd: an op must not ask a tensor for more than sizes and values.

namespace tracehost::tape {

/// Why a tape can't have the op, `aten::rand draws`; empty: it can. A block is none's business
/// here.
std::string why_not(const torch::jit::Node &node);

/// Name and overload, `aten::mul.Tensor`.
std::string full_name(const c10::FunctionSchema &schema);

/// The arguments that an op writes to: those of its schema, and a running mean.
std::vector<std::size_t> written_arguments(const torch::jit::Node &node);
inline bool writes(const torch::jit::Node &node) { return !written_arguments(node).empty(); }

/// Whether an op writes to its first argument alone, which is its result: `aten::add_`.
bool writes_in_place(const torch::jit::Node &node);

/// Whether an op that writes may give what it writes to other sizes or strides at another number:
/// `arange(n, out=x)`, `x.transpose_(0, n)`.
bool resizes_by_number(const torch::jit::Node &node);

/// Whether an op does nothing on a tape: no gradients are recorded there, and a tape saves itself
/// what an early end restores.
bool does_nothing(const torch::jit::Node &node);

/// Whether the op asks where its first tensor lies in its memory.
bool reads_offset(const torch::jit::Node &node);

/// Whether an op may throw, or give other sizes, at other values. Requires: sizes and dtypes are as
/// they were. `integers`: it has tensors of integers, which may be indexes or divisors.
bool may_fail(const torch::jit::Node &node, bool integers);

/// Whether the op draws from a generator.
bool draws(const torch::jit::Node &node);

/// Whether a graph enables or disables gradients: `aten::set_grad_enabled`.
bool switches_grad(const torch::jit::Graph &graph);

/// Whether the results that are no tensors are the same at all calls with the same sizes. Requires:
/// the arguments that are no tensors are.
bool is_fixed(const torch::jit::Node &node);

/// Whether all results are tensors or lists of tensors.
bool gives_tensors(const torch::jit::Node &node);

/// Whether the op gives memory that has no values yet.
bool is_uninitialized(const torch::jit::Node &node);
/// Whether a result is room for the op's own use, with values that nobody reads.
bool gives_workspace(const torch::jit::Node &node);

} // namespace tracehost::tape
