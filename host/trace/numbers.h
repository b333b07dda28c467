#pragma once

#include "program/numbers.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <optional>
#include <string>
#include <vector>

/// Numbers that the body reads from tensors, and what Python computes of them.
///
/// Problem: `x.sum().item() * 2` leaves torch. libtorch's tracer would see a read, and then a
/// constant. Answer: the body gets a *traced number*. To Python it is a number (bindings/); here it
/// is a 0-dim tensor (bool, int64 or float64) that weighs in type promotion as a number does. The
/// graph computes with scalars; a tensor is made of one only where an op takes it as a tensor.
///
///     n = x.sum().item()         %2 : float = aten::item(%1)
///     m = n * 2                  %3 : float = tracehost::py_mul(%2, 2)
///     y = x * m                  %4 : Tensor = tracehost::py_tensor(%3);  aten::mul(%x, %4)
///     z = torch.full((3,), m)    aten::full([3], %3)
///
/// Into the last one the number comes by libtorch's argument parser, which puts an
/// `aten::ScalarImplicit(%4)` behind %4 and reads the value besides. fold_numbers() takes that out.

namespace tracehost::trace {

/// Several NumberKinds, as bits.
using Kinds = unsigned;
inline Kinds bit(NumberKind kind) { return 1U << static_cast<unsigned>(kind); }

/// What `t.item()` is. Requires: recording(), `t` has one element, of a dtype with a NumberKind.
at::Tensor read_number(const at::Tensor &t);
/// The number in `t`, which holds what Python kept in a slot: read at the head of the graph, so
/// that its checks come before all effects. Requires: recording(), `t` becomes a capture.
at::Tensor number_of_slot(const at::Tensor &t);
/// `number` is one (made of what number_of_slot() gave): it is known behind staged blocks, too.
void keep_known(const at::Tensor &number);
/// Whether the number is computed of constants alone. Requires: recording().
bool is_constant_number(const at::Tensor &number);
/// Whether the number follows from such slots alone, and one more graph for another value of it may
/// serve the same arguments. Requires: recording().
bool can_be_checked(const at::Tensor &number);
/// `t.size(dimension)` and `t.numel()`, of a tensor whose sizes depend on values. Requires:
/// recording().
at::Tensor read_size(const at::Tensor &t, std::int64_t dimension);
at::Tensor read_numel(const at::Tensor &t);
/// `t.stride(dimension)`, `t.storage_offset()` and `t.is_contiguous(memory_format)`, of a tensor
/// that lies_by_sizes(). Requires: recording(), `t` is known.
at::Tensor read_stride(const at::Tensor &t, std::int64_t dimension);
at::Tensor read_offset(const at::Tensor &t);
at::Tensor read_contiguity(const at::Tensor &t, at::MemoryFormat format);
/// `t.requires_grad` and `t.is_leaf`, of a tensor that records_by_block(). Requires: recording(),
/// `t` is known.
at::Tensor read_requires_grad(const at::Tensor &t);
at::Tensor read_is_leaf(const at::Tensor &t);
/// The elements of `t` are read (`what`), so the graph checks its sizes, if they depend on values.
/// Requires: recording().
void check_sizes(const at::Tensor &t, const std::string &what);
/// Nullopt: of a complex or quantised tensor, which is no number of a graph.
std::optional<NumberKind> number_kind(at::ScalarType dtype);
/// Whether the body of the trace under way has got a number.
bool has_numbers();
/// Whether `t` is a number of the trace under way.
bool is_traced_number(const at::Tensor &t);
/// What `op` gives: `operands` are traced numbers and sizes, as tensors, and bools, ints and
/// doubles, at least one of them traced. Throws what the op does (Raised, LeavesNumbers). Requires:
/// recording().
at::Tensor compute_number(const NumberOp &op, const std::vector<c10::IValue> &operands);
/// The type of `number` counts from here on. If the type depends on values (`max` of an int and a
/// float), the graph checks the type. Requires: recording().
void settle_kind(const at::Tensor &number);
/// A tensor of the same value, which weighs in type promotion as a tensor. Requires: recording().
at::Tensor tensor_of_number(const at::Tensor &number);
/// A number as a Scalar of the graph, which TorchScript takes no bool for.
torch::jit::Value *number_constant(torch::jit::Graph &graph, const c10::IValue &number);
/// As a scalar of the graph: a traced number, or a size. Requires: recording().
torch::jit::Value *scalar_of(const at::Tensor &number);
/// What a traced number is in this call; nullopt where it has no data.
std::optional<c10::IValue> value_of_number(const at::Tensor &number);
/// The value, for C code that may be on its way to an op, which then has the number from the graph
/// (`x[:n]`). Otherwise the graph checks the value, or the read is unsupported (speculation.cpp).
/// Requires: recording().
std::int64_t index_of_number(const at::Tensor &number);
/// The same of a float (`F.dropout(x, p=n)`).
double real_of_number(const at::Tensor &number);
/// Where the op that is called next has a number: an argument, or an element of a list.
struct ArgumentPlace {
  std::size_t index = 0;
  std::string name;          ///< in place of the index, if the body gave it by name
  std::int64_t element = -1; ///< of a list; -1: the argument itself
};
/// The value, for the op that is called next: its node gets the number at that place. A number
/// without data gives another one that any op takes. Requires: recording().
c10::IValue give_number(const at::Tensor &number, ArgumentPlace place);
/// Whether a check may stand here: nothing was changed before that could not be undone, and one
/// more graph may serve the same arguments. Requires: recording().
bool may_check();
/// The trace continues with one side of an `if`: the graph checks that `condition`, of one element,
/// is `actual`. `where`: the line of the `if`. Requires: may_check().
void check_condition(const at::Tensor &condition, bool actual, const std::string &where);
/// The body needs the value of `t`. If `t` is a number of the trace, the graph checks the value, or
/// the read is unsupported (speculation.cpp). Also where torch has switched the tracer off for a
/// moment (torch.tensor(...)). Requires: active().
void need_number(const at::Tensor &t, const std::string &how);
/// Raises, because the body needs the value of a number that has none in this trace. `how`:
/// `float()`, `a dict key`. Requires: recording().
[[noreturn]] void reject_number(const at::Tensor &number, const std::string &how);
/// The same of a value that no graph could have: a call continues as plain Python.
[[noreturn]] void abandon_number(const std::string &how);

/// The scalar in place of a tensor that was made of one, and of what libtorch's argument parser
/// reads from that.
void fold_numbers(torch::jit::Block &block);

} // namespace tracehost::trace
