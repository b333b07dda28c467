#pragma once

#include "program/callback.h"
#include "program/numbers.h"
#include "program/places.h"
#include "shapes/fake_tensor.h"
#include "trace/array_memory.h"
#include "trace/block.h"
#include "trace/dynamic_sizes.h"
#include "trace/eager_region.h"
#include "trace/frontend.h"
#include "trace/gradients.h"
#include "trace/head.h"
#include "trace/modes.h"
#include "trace/numbers.h"
#include "trace/op_hook.h"
#include "trace/op_tensors.h"
#include "trace/op_traits.h"
#include "trace/reshapes.h"
#include "trace/saves.h"
#include "trace/tracer.h"
#include "trace/witness.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

/// Only for the sources of trace/: the state behind the functions of tracer.h.

namespace tracehost::trace {

namespace jit = torch::jit;

/// A block of the body that is no part of it, while it runs.
struct EagerRegion {
  std::uint64_t number;
  Site where;
  std::shared_ptr<jit::tracer::TracingState> state; ///< the trace's, to continue with
  std::unique_ptr<ModesOfCall> modes;
  bool resumed = false; ///< recording continues for a moment
};

/// The state of one trace; lives on the stack of trace().
class Scope final : public OpHook {
public:
  Scope(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic, Frontend &frontend,
        Witness *witness)
      : frontend_(frontend), witness_(witness), slots_(slots), names_(dynamic.names),
        traces_reads_(frontend.traces_reads()) {
    for (const at::Tensor &t : slots)
      note_outside(t);
    if (witness_)
      for (const at::Tensor &t : slots)
        witness_->met(t);
    if (!dynamic.dimensions.empty() || !dynamic.captures.empty())
      dynamic_sizes.emplace(slots, dynamic, frontend, result, [this](const std::string &what) {
        reject(Rejection::value_read, what);
      });
  }

  void before(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void substitute(const c10::OperatorHandle &op, jit::Stack &stack) override;
  bool keeps_data(const c10::OperatorHandle &op) const override {
    return without_data() && traits(op).literal;
  }
  bool is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  bool records(const c10::OperatorHandle &op) const override {
    const OpTraits &of = traits(op);
    return of.own_node || (without_data() && shapes::runs_above(op));
  }
  std::optional<c10::OperatorHandle> instead(const c10::OperatorHandle &op) override;
  void record(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void failed(const c10::OperatorHandle &op) override;
  void after(const c10::OperatorHandle &op, jit::Stack &stack) override;
  bool abandoned() const override { return abandoned_; }
  /// Abandons the trace if it was rejected, and the body continues without it.
  bool abandons();
  bool runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void outside(const c10::OperatorHandle &op, const jit::Stack &stack) override;

  void settle_numbers(const c10::OperatorHandle *op);
  void forget(jit::Node *node);
  /// Makes sure that the tracer knows `t`, as a capture if need be.
  void know(const at::Tensor &t);
  /// Raises for a result in the memory of an array.
  void check_returned(const at::Tensor &t);
  /// What stands for `t` where the trace has no data; the tracer knows it as it knows `t`.
  at::Tensor fake_tensor(const at::Tensor &t);
  bool without_data() const { return on_fake_tensors_ > 0 || frontend_.without_data(); }
  Site here() { return frontend_.here(); }
  void forget_casts() { trace::forget_casts(frontend_); }
  /// The source range of the line that runs now. Ops of one line share a Source.
  const jit::SourceRange &place();
  bool traces_reads() const { return traces_reads_; }
  [[noreturn]] void reject(Rejection why, const std::string &what);
  [[noreturn]] void reject_sizes(const std::string &what);
  /// `what` takes `t` apart: the graph checks its sizes, if they depend on values.
  void check_sizes(const at::Tensor &t, const std::string &what);
  /// Whether `t`'s sizes follow from the signature, not from values (nonzero, a mask).
  bool exact(const at::Tensor &t) const;
  /// C code asks for the value of a traced number, maybe for the op that comes. `as_constant`: the
  /// op has the value as a constant then. number_arguments.cpp.
  /// `place`: where the op that is called next has it, if that is known.
  void read_by_c_code(const at::Tensor &number, const c10::IValue &value, bool as_constant,
                      std::optional<ArgumentPlace> place = {});
  void repeat_rejection() const;
  bool is_rejected() const { return rejected_; }
  void forgive_rejection() {
    rejected_ = false;
    raised.clear();
    numbers_read_.clear();
  }
  /// The body reads the value of `t` in a way that a graph cannot repeat. value_reads.cpp.
  [[noreturn]] void reject_read(const at::Tensor *t, const std::string &how, const Site &where);
  /// After the body: balances modes, and raises again for an unsupported step whose error the body
  /// swallowed.
  void close();

  // What is done to a tensor's object: state.cpp.
  void is_leaf_of_body(const at::Tensor &t);
  void note_leaf(const at::Tensor &t);
  void note_raising(const std::string &op);
  /// The op of that result is not removed as dead.
  void keep(jit::Value *result);
  bool made_its_memory(const at::Tensor &t) const;
  /// Whether the strides of `t` may be others where an input's are.
  bool may_lie_as_inputs(const at::Tensor &t) const;
  /// Whether its strides may depend on which way a call takes through an `if` or a loop.
  /// Whether it may depend on which way a call takes through blocks. A block's read is noted.
  bool varies(Fact fact, const at::Tensor &t);
  bool sets_data = false; ///< `t.data = x` gives strides that no node has
  void check_reshaped(const c10::OperatorHandle &op, const at::Tensor &t);

  // Numbers whose value the body needs: speculation.cpp.
  /// The trace continues with `actual`, and the graph checks the number here. `how`: `bool()`.
  /// `where`: the line that needs it.
  void speculate(jit::Value *scalar, const c10::IValue &actual, const std::string &how,
                 const std::string &where);
  /// The same of its type, if the type depends on values.
  void check_kind(jit::Value *scalar, NumberKind actual);
  /// Numbers whose type depends on values (`min` of an int and a float), and the types that they
  /// may have. While only numbers are computed of one, no check is needed.
  std::unordered_map<const jit::Value *, unsigned> loose;
  /// A number op raises or does not, and an `except` of the body may depend on that. So the graph
  /// checks it. `known`: the operands have values in this call.
  void check_raises(const NumberOp &op, const std::vector<jit::Value *> &operands, bool raises,
                    bool known = true);
  std::vector<jit::Value *> texts; ///< of numbers, by the marks that stand for them (messages.h)
  /// Whether an op that reads values becomes a checked number; then it runs aside.
  bool speculates(const c10::OperatorHandle &op, const jit::Stack &stack);
  /// What is recorded now may raise. In a loop it may do so behind effects of earlier iterations.
  void note_raise() { result.raises_late |= !effect.empty() || !saves_.empty() || in_loop(); }
  /// Whether a run that fails here has changed nothing that it does not save.
  bool undoable() const { return effect.empty() && saves_.all_needed() && !in_loop(); }
  bool in_loop() const;
  /// Something is about to change that a graph cannot undo.
  void note_effect(const std::string &what);
  std::string effect; ///< the first such change: `aten::resize_ at net.py:12`
  const Outcomes *outcomes = nullptr;
  /// Numbers of slots, and checks that follow from them alone.
  Head &head() { return head_ ? *head_ : head_.emplace(*jit::tracer::getTracingState()->graph); }
  /// `number` is one of a slot: also known behind the block in which it was met first.
  void keep_known(const at::Tensor &number);
  void know_slots(jit::tracer::TracingState &state) const;
  bool is_of_head(const jit::Value *scalar) const { return head_ && head_->reaches(scalar); }
  /// Whether one more graph, for another value, may serve the same arguments.
  bool may_check() const { return effect.empty() && may_branch(); }
  bool may_branch() const { return !outcomes || outcomes->graphs < Outcomes::most_graphs; }

  // Parts of the body that are not recorded as ops: eager_region.cpp, call.cpp.
  void lift();
  void land(bool at_end = false); ///< after lift(): recording continues
  /// In an eager region: whether the trace made `t`, or was given it as a slot.
  bool is_traced(const at::Tensor &t) const;
  void prepare_call(const std::vector<at::Tensor> &inputs);
  void record_call(c10::intrusive_ptr<Callback> callback, const std::vector<at::Tensor> &inputs,
                   const std::vector<at::Tensor> &outputs);

  // Backward passes and `.grad`s: gradients.cpp.
  void prepare_engine_call(const EngineCall &call);
  void record_engine_call(const EngineCall &call, const std::vector<at::Tensor> &results);
  void read_grad(const at::Tensor &t);
  void written_grad(const at::Tensor &t);
  Gradients gradients;

  Traced result;
  std::optional<DynamicSizes> dynamic_sizes;
  std::optional<EagerRegion> eager_region;
  std::string raised; ///< a recorded call did: the message for a body that continues

  // Blocks of the graph under construction: block.cpp.
  void record_modes();
  void enter_fake_tensors();
  void leave_fake_tensors();
  /// A block without data uses `t`, which is known.
  void meet(const at::Tensor &t);
  void meet(jit::Value *scalar, const c10::IValue &value);
  void made_in_block(const at::Tensor &t);
  void check_not_of_block(const at::Tensor &t);
  void take_block(jit::Node *node, std::size_t taken);
  void open_block(const jit::Block *block);
  bool saves_nothing() const { return saves_.empty(); }
  bool made_without_data(const at::Tensor &t) const;
  /// Where a block made a tensor without data that is still alive, if there is one.
  Site left_behind() const;
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;
  /// May be, in eager, what went into a staged block; no address is used twice. The second is the
  /// tensor that this call's eager has in place of the first.
  std::unordered_map<const c10::TensorImpl *, std::pair<Weak, Weak>> may_be_others;
  Reshapes reshapes;                              ///< by ops of the blocks
  int blocks = 0;                                 ///< around what is recorded now
  ThreadModes modes = ThreadModes::now();         ///< of the graph so far
  std::unordered_set<const jit::Value *> inexact; ///< values whose sizes depend on values
  std::unordered_set<const jit::Value *> &varying(Fact fact) { // results of blocks
    return varying_[static_cast<std::size_t>(fact)];
  }
  /// Tensors of which a block's body has read it, and where.
  std::unordered_map<const jit::Value *, Site> &read_in_blocks(Fact fact) {
    return read_in_blocks_[static_cast<std::size_t>(fact)];
  }
  std::unordered_map<jit::Value *, c10::IValue> met; ///< with data, that ops met on fake tensors

private:
  void note_outside(const at::Tensor &t) {
    if (t.has_storage())
      outside_.emplace(t.storage().unsafeGetStorageImpl(), t.storage());
  }
  void know_taken(const std::unordered_set<const jit::Block *> &taken);
  void literal(const at::Tensor &t);
  [[noreturn]] void reject_shared(const std::string &what, const std::string &made_at);
  void cast_number(jit::Stack &stack);
  void note_written(const c10::OperatorHandle &op, const jit::Stack &stack);
  void check_substituted(const c10::OperatorHandle &op);
  void recorded(const c10::OperatorHandle &op, const jit::Stack &stack);
  void check_can_be_recorded(const c10::OperatorHandle &op);
  void keep_non_blocking(const jit::Node *before);
  void check_overload(const c10::OperatorHandle &op, const jit::Node *before);
  [[noreturn]] void reject_read(const c10::OperatorHandle &op, const jit::Stack &stack);
  std::optional<std::pair<std::uint32_t, at::Tensor>> input_of(const at::Tensor &t) const;
  std::string input_name(std::uint32_t input) const;
  void note_effects(const c10::OperatorHandle &op, const jit::Stack &stack);
  void note_draw(const c10::OperatorHandle &op, const jit::Stack &stack);
  void insert_check(const char *name, jit::Value *scalar, const c10::IValue &expected);
  void check_parts(const c10::OperatorHandle &op, const jit::Stack &stack);
  bool check_numbers(const c10::OperatorHandle &op, const jit::Stack &stack);
  bool reads_number(const c10::OperatorHandle &op, const jit::Stack &stack);
  bool reads_tensor(const c10::OperatorHandle &op, const jit::Stack &stack);
  /// A number that C code has read. number_arguments.cpp.
  struct NumberRead {
    at::Tensor number;
    jit::Value *tensor; ///< that stands for it
    c10::IValue value;  ///< that the code got
    bool as_constant;   ///< the parser has the value, and has put no node behind `tensor`
    jit::Node *last;    ///< of the graph, when it was read: a check comes behind it
    Instruction by;
    Site where;
    std::string effect = {}; ///< before it
    at::Tensor source = {};  ///< that it was read from, where the body has no number; or undefined
    std::optional<ArgumentPlace> place = {};
  };
  void need_read(const NumberRead &read);
  bool takes_place(const c10::OperatorHandle &op, const NumberRead &read);
  bool takes_parsed(const c10::OperatorHandle &op, const NumberRead &read);
  void note_sizes_of(const c10::OperatorHandle &op, const jit::Value *number);
  void take_constants(const c10::OperatorHandle &op, std::vector<NumberRead> &reads);
  void part_from_argument(const c10::OperatorHandle &op, jit::Stack &stack);
  void note_inexact(jit::Node &node);
  void check_rank(const c10::OperatorHandle &op, const jit::Stack &stack);
  bool reads_size(const c10::OperatorHandle &op, const jit::Stack &stack);
  void check_reached_by_grad_alone(const at::Tensor &grad);
  bool can_be_taken_back(const EngineCall &call);
  void note_grads();

  Frontend &frontend_;
  Witness *const witness_; ///< null: none
  const std::vector<at::Tensor> slots_;
  const std::vector<std::string> names_;         ///< of the slots
  const bool traces_reads_;                      ///< else each read raises
  std::unordered_set<const jit::Node *> parsed_; ///< of the parser's nodes, those that an op has
  std::vector<NumberRead> numbers_read_;         ///< by C code, maybe for the op that comes
  std::optional<Head> head_;
  std::vector<std::pair<at::Tensor, jit::Value *>> slots_known_; ///< numbers of slots
  std::vector<NotedLine> caught_;                                ///< see Traced::caught
  Saves saves_;                                                  ///< of what can be taken back
  /// Memory of what was there before. Held: a body that assigns `.data` may let go of it.
  std::unordered_map<const c10::StorageImpl *, c10::Storage> outside_;
  ArrayMemory arrays_; ///< that the body made tensors of
  std::vector<std::pair<at::Tensor, at::Tensor>>
      substituted_; ///< by the last op, with fake tensors
  std::unordered_map<const c10::TensorImpl *, jit::Value *> captured_; ///< hidden inputs
  jit::Node *own_node_ = nullptr; ///< of the op under way that record() has made one for
  std::vector<std::pair<Weak, Site>> without_data_; ///< tensors that blocks have made
  /// Tensors made in a block. Around the block they are known only after take_block().
  std::unordered_map<const c10::TensorImpl *,
                     std::pair<c10::weak_intrusive_ptr<c10::TensorImpl>, jit::Value *>>
      of_blocks_; ///< with its value; null: taken out of the graph
  std::array<std::unordered_set<const jit::Value *>, 2> varying_;              ///< by Fact
  std::array<std::unordered_map<const jit::Value *, Site>, 2> read_in_blocks_; ///< by Fact
  /// Blocks that are none any more (InBlock::open), and whose nodes still are in them.
  std::unordered_set<const jit::Block *> opened_;
  /// Tensors made in the body that were set to require gradients; no address is used twice.
  std::unordered_map<const c10::TensorImpl *, c10::weak_intrusive_ptr<c10::TensorImpl>> leaves_;
  int on_fake_tensors_ = 0;
  shapes::Twins twins_; ///< of what ops met without data
  /// An op under way.
  struct Op {
    bool makes_inexact;
    jit::Node *before;            ///< the last node that is not its own
    bool non_blocking;            ///< copy_(non_blocking=True)
    bool raises;                  ///< for some values
    const c10::TensorImpl *first; ///< argument, if that is a tensor
    jit::Value *first_value;
  };
  std::vector<Op> under_way_;                        ///< by depth
  std::shared_ptr<jit::tracer::TracingState> state_; ///< once an op was recorded
  bool reading_size_ = false;                        ///< an op under way reads a traced size
  const ThreadModes at_call_ = ThreadModes::now();
  Site last_site_;
  bool last_undoable_ = false;
  std::optional<jit::SourceRange> last_place_; ///< of the two before
  bool rejected_ = false;
  bool abandoned_ = false;
  Rejection why_ = Rejection::trace;
  std::string what_;
};

/// The innermost trace of this thread; null: none.
extern constinit thread_local Scope *current;

} // namespace tracehost::trace
