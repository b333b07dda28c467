#pragma once

#include "trace/array_memory.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tracehost::trace {

class Trace;

/// Tensors that no op of the body has made, and their memory: slots, captures, literals.
///
///     y = x + self.w              x: a slot    self.w: a capture, a further input of the graph
///     z = y * torch.tensor(2.0)   a literal: a constant, and a clone for each call
class Inputs {
public:
  Inputs(Trace &trace, const std::vector<at::Tensor> &slots, std::vector<std::string> names);

  const std::vector<at::Tensor> &slots() const { return slots_; }
  /// Makes sure that the tracer knows `t`, as a capture if need be.
  void know(const at::Tensor &t);
  /// `t` is what torch.tensor() and its kin end with.
  void literal(const at::Tensor &t);
  /// Raises for a result, or a write, in the memory of an array. `op`: `aten::add_`.
  void check_returned(const at::Tensor &t);
  void check_written(const at::Tensor &t, const std::string &op);

  /// The input of the graph that `t` is, or is detached from, with that input's tensor.
  std::optional<std::pair<std::uint32_t, at::Tensor>> find(const at::Tensor &t) const;
  /// `'n'`; empty for what has no name.
  std::string name(std::uint32_t input) const;

  /// The memory of `t` was there before the call.
  void note_memory(const at::Tensor &t);
  bool has_memory(const c10::StorageImpl *memory) const { return memory_.contains(memory); }
  /// Whether the memory of `t` is neither a slot's nor a capture's.
  bool are_apart(const at::Tensor &t) const;
  /// Whether the strides of `t` may be others where an input's are.
  bool may_lie_as_inputs(const at::Tensor &t) const;
  bool sets_data = false; ///< `t.data = x` gives strides that no node has

  /// `t` is a leaf of autograd that the body makes.
  void is_leaf_of_body(const at::Tensor &t);
  /// Makes the flag of `torch.zeros(3, requires_grad=True)`, which no op sets, an op.
  void note_leaf(const at::Tensor &t);

private:
  [[noreturn]] void reject_shared(const std::string &what, const std::string &made_at);

  Trace &trace_;
  const std::vector<at::Tensor> slots_;
  const std::vector<std::string> names_;                                   ///< of the slots
  std::unordered_map<const c10::TensorImpl *, torch::jit::Value *> known_; ///< captures
  /// Memory of what was there before. Held: a body that assigns `.data` may let go of it.
  std::unordered_map<const c10::StorageImpl *, c10::Storage> memory_;
  ArrayMemory arrays_; ///< that the body made tensors of
  /// Tensors made in the body that were set to require gradients; no address is used twice.
  std::unordered_map<const c10::TensorImpl *, c10::weak_intrusive_ptr<c10::TensorImpl>> leaves_;
};

} // namespace tracehost::trace
