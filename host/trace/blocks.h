#pragma once

#include "event/event.h"
#include "shapes/fake_tensor.h"
#include "trace/block.h"
#include "trace/reshapes.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tracehost::trace {

class Trace;

/// Branches and loops of the graph under construction, and tensors without data.
///
///     if a.sum() > 0:      the side that is not taken runs on fake tensors: `fake_tensor`
///         y = x * 2        made in the block: known there, and behind it by the `if`'s results
///     z = y + 1            a side may have read how y lies in memory: `varies`
///
/// block.h is what staging/ sees of this.
class Blocks {
public:
  explicit Blocks(Trace &trace) : trace_(trace) {}

  int depth = 0; ///< blocks around what is recorded now

  // Tensors without data.
  void enter_fake_tensors();
  void leave_fake_tensors();
  bool on_fake_tensors() const { return on_fake_tensors_ > 0; }
  /// What stands for `t` where the trace has no data; the tracer knows it as it knows `t`.
  at::Tensor fake_tensor(const at::Tensor &t);
  /// Puts fake tensors in place of an op's arguments.
  void substitute(const c10::OperatorHandle &op, torch::jit::Stack &stack);
  /// After the op: raises where it has changed what it was given in place of a tensor.
  void check_substituted(const c10::OperatorHandle &op);
  /// Whether the op computes only sizes, which have values.
  bool is_of_sizes(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  /// A block without data uses `t`, which is known.
  void meet(const at::Tensor &t);
  void meet(torch::jit::Value *scalar, const c10::IValue &value);
  std::unordered_map<torch::jit::Value *, c10::IValue> met; ///< with data, by ops on fake tensors

  // What a block makes.
  void made(const at::Tensor &t);
  /// Raises if a block that is closed now has made `t`.
  void check_not_made(const at::Tensor &t);
  /// Where a block made a tensor without data that is still alive, if there is one.
  Site left_behind() const;
  void take(torch::jit::Node *node, std::size_t taken);
  void open(const torch::jit::Block *block);
  void forget(torch::jit::Value *value);

  // What a block does to tensors from around it.
  void note_written(const c10::OperatorHandle &op, const torch::jit::Stack &stack);
  void check_reshaped(const c10::OperatorHandle &op, const at::Tensor &t);
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  /// May be, in eager, what went into a staged block; no address is used twice. The second is the
  /// tensor that this call's eager has in place of the first.
  std::unordered_map<const c10::TensorImpl *, std::pair<Weak, Weak>> may_be_others;
  Reshapes reshapes; ///< by ops of the blocks

  // What depends on the way that a call takes through blocks.
  /// Whether that of `t` may depend on it. A block's read is noted.
  bool varies(Fact fact, const at::Tensor &t);
  /// Results of blocks of which it may differ.
  std::unordered_set<const torch::jit::Value *> &varying(Fact fact) {
    return varying_[static_cast<std::size_t>(fact)];
  }
  /// Tensors of which a block's body has read it, and where.
  std::unordered_map<const torch::jit::Value *, Site> &read(Fact fact) {
    return read_[static_cast<std::size_t>(fact)];
  }

private:
  bool made_without_data(const at::Tensor &t) const;
  void know_taken(const std::unordered_set<const torch::jit::Block *> &taken);

  Trace &trace_;
  int on_fake_tensors_ = 0;
  shapes::Twins twins_;                                        ///< of what ops met without data
  std::vector<std::pair<at::Tensor, at::Tensor>> substituted_; ///< by the last op
  std::vector<std::pair<Weak, Site>> without_data_;            ///< tensors that blocks have made
  /// Tensors made in a block. Around the block they are known only after take().
  std::unordered_map<const c10::TensorImpl *,
                     std::pair<c10::weak_intrusive_ptr<c10::TensorImpl>, torch::jit::Value *>>
      made_; ///< with its value; null: taken out of the graph
  std::array<std::unordered_set<const torch::jit::Value *>, 2> varying_;    ///< by Fact
  std::array<std::unordered_map<const torch::jit::Value *, Site>, 2> read_; ///< by Fact
  /// Blocks that are none any more (InBlock::open), and whose nodes still are in them.
  std::unordered_set<const torch::jit::Block *> opened_;
};

/// Whether what is recorded now is in a loop of the graph.
bool in_loop();

} // namespace tracehost::trace
