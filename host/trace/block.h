#pragma once

#include "event/event.h"
#include "shapes/without_data.h"
#include "trace/modes.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

/// What staging/ needs of a trace under way, to put blocks into its graph.

namespace tracehost::trace {

/// The value of the graph that `t` stands for; a hidden input if it is none yet. Requires:
/// recording().
torch::jit::Value *value_of(const at::Tensor &t);
/// `t` stands for `value` from now on. Requires: recording().
void bind(const at::Tensor &t, torch::jit::Value *value);
/// The same of a tensor that has just been made, which in a block is one of the block's.
void bind_made(const at::Tensor &t, torch::jit::Value *value);
/// The sizes of `value` depend on values, so reads of them are unsupported. Requires: active().
void set_inexact(torch::jit::Value *value);
/// What of a block's result may depend on which way a call takes.
enum class Fact : std::uint8_t {
  layout,  ///< strides
  gradient ///< requires_grad, is_leaf
};
/// `value` is a result of a block, and that of it depends on the way. Requires: active().
void set_varies(const torch::jit::Value *value, Fact fact);
/// A loop carries `value`, and iterations differ in that of it. Unsupported if the loop's body has
/// read it. Requires: active().
void check_not_read(const torch::jit::Value *value, Fact fact);
/// `t` may be, in eager, the same tensor that went into a staged block. So an op may change its
/// values, but not its sizes and history. In this call, `t` is `original` in eager.
void may_be_another(const at::Tensor &t, const at::Tensor &original);
/// A new node of that op in the trace's graph, of the user's line. Requires: recording().
torch::jit::Node *record_op(const std::string &op, c10::ArrayRef<torch::jit::Value *> inputs,
                            std::size_t outputs = 1);
/// A node with blocks is about to be destroyed.
void forget(torch::jit::Node *node);
/// What block `taken` of the node has comes before the node, and the node is destroyed. Tensors
/// that were made in the block are known around it. Requires: recording(), the node has no outputs.
void take_block(torch::jit::Node *node, std::size_t taken);
bool is_inexact(const torch::jit::Value *value);
/// After dead nodes are removed: takes out each `tracehost::keep` of a result that is used.
void settle_kept(torch::jit::Graph &graph);
/// The graph has the thread's modes from here on; before a block, so that it begins with them.
/// Requires: recording().
void record_modes();
/// Forgets the error for unsupported code in a block that is not run. Requires: active().
void forgive_rejection();
/// Whether something was rejected, and not forgiven: libtorch's argument parser swallows
/// exceptions.
bool is_rejected();
/// Forgets a failure in a block, because the graph raises the same error if it reaches the block.
/// So the failure does not make the body unsupported. Requires: active().
void forgive_failure();
/// The graph raises here what a block of the body has raised.
void note_raised();
/// The first change that could not be undone, as `aten::add_ at net.py:12`; empty: there was none.
/// A discarded block restores the effect that was first before the block. Requires: active().
std::string first_effect();
void set_first_effect(std::string effect);
/// Whether nothing was changed so far that a failed check would restore.
bool saves_nothing();
/// `t` belongs to the block that is recorded now. Requires: in_block().
void note_made_in_block(const at::Tensor &t);
/// Raises if a block that is closed now has made `t`. Requires: recording(), `t` is not known.
void check_not_of_block(const at::Tensor &t);
/// Where a tensor without data was made that outlives its block, as something has stored it; line
/// 0: nowhere. Requires: active(), no block is open.
Site left_behind();
/// Whether what is recorded now is in a branch or a loop. Requires: active().
bool in_block();
/// Raises for control flow that can't be a part of the graph. Requires: active().
[[noreturn]] void reject_staging(const std::string &message);

/// What is recorded while this lives goes to the end of `block`; what is made there is known only
/// there. Requires: recording().
class InBlock {
public:
  explicit InBlock(torch::jit::Block *block);
  ~InBlock();
  InBlock(const InBlock &) = delete;
  InBlock &operator=(const InBlock &) = delete;
  /// At the end, if nothing was thrown: the modes must be again what they were at its begin. If
  /// they are not, raises, with the modes restored.
  void close();
  /// Whether the modes are what they were at its begin.
  bool keeps_modes() const { return modes_.is_now(); }
  /// Whether no tensor from around it has other sizes than before.
  bool keeps_shapes() const;
  /// The block stops to be one: its nodes will be part of what is around it (take_block), and what
  /// is recorded until its end is so, too. Inner blocks are opened first.
  void open();

private:
  void leave();

  torch::jit::Block *block_;
  bool opened_ = false;
  std::shared_ptr<void> state_;
  torch::jit::Node *before_; ///< the insert point
  ThreadModes modes_;
};

/// Ops run without data while this lives: a branch that is not taken, a loop's body. They nest.
/// Requires: recording().
class OnFakeTensors {
public:
  OnFakeTensors();
  ~OnFakeTensors();
  /// The tensors with data that ops met since the outermost one began, by their values; lists; and
  /// the traced sizes of the trace.
  std::unordered_map<torch::jit::Value *, c10::IValue> met() const;

private:
  shapes::WithoutData mode_;
};

/// At the end of a block's body, before what it left is taken: numbers that C code has read there
/// get their checks in the block. Requires: recording().
void settle_reads();

/// `value` is a list with data that a block uses. Requires: an OnFakeTensors lives.
void meet(torch::jit::Value *value, const c10::IValue &list);

/// What stands for `t` without data, known to the graph as `t` is. Requires: an OnFakeTensors
/// lives.
at::Tensor fake_tensor_for(const at::Tensor &t);

} // namespace tracehost::trace
