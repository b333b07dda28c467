#pragma once

#include "shapes/kernels.h"
#include "trace/blocks.h"
#include "trace/dynamic_sizes.h"
#include "trace/eager_region.h"
#include "trace/effects.h"
#include "trace/frontend.h"
#include "trace/gradients.h"
#include "trace/inputs.h"
#include "trace/modes.h"
#include "trace/number_arguments.h"
#include "trace/op_hook.h"
#include "trace/op_traits.h"
#include "trace/rejections.h"
#include "trace/speculation.h"
#include "trace/tracer.h"
#include "trace/value_sizes.h"
#include "trace/witness.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

/// One trace under way. Only for the sources of trace/: other folders call the functions of
/// tracer.h, numbers.h, block.h and gradients.h, which ask the trace of their thread (`current`).
///
/// Problem. libtorch's tracer records ops and nothing else. A graph that is right for later calls
/// needs more. Where does each tensor come from? What is changed, and can that be undone? Which
/// numbers and sizes depend on values? What belongs to which branch? Each question has a part with
/// a state of its own.
///
/// Layout.
///
///     part              file                 owns
///     rejections        rejections.h         why the body is no graph, and whether it continues
///     inputs            inputs.h             slots, captures, literals; memory from before
///     effects           effects.h            what the body changes, and the saves that undo it
///     speculation       speculation.h        numbers whose value the body needs: checks
///     number_arguments  number_arguments.h   numbers that C code has read, for the next op
///     value_sizes       value_sizes.h        sizes that depend on values
///     dynamic_sizes     dynamic_sizes.h      sizes that depend on the inputs' sizes, or none
///     blocks            blocks.h             branches and loops; tensors without data
///     gradients         gradients.h          `.grad`s, and backward passes of the body
///     modes             modes.h              grad mode, autocast: those of the graph so far
///     eager_region      (below)              an init_scope block under way, or none
///
/// What stays in Trace itself is the order in which an op asks them (trace.cpp), and ops of which
/// libtorch's tracer makes no node (own_nodes.cpp).
///
/// Order. An op of the body passes here, by the op hook (op_hook.h):
///
///     1  runs_aside()   a read of a value is not recorded: number_arguments, then speculation,
///                       make a number or a check of it (value_reads.cpp)
///     2  before()       a size's value is read: dynamic_sizes; another value: rejected
///                       ops that no graph can have: rejected
///                       modes: changes since the last op become nodes
///                       number_arguments: a traced number is given to an op that takes one
///                       inputs: each unknown tensor is a capture, or a literal
///                       effects: what the op writes is saved, or noted
///                       blocks: what the op writes from around the block
///                       the witness sees the op, for validation
///                       value_sizes: whether the results' sizes will depend on values
///     3  substitute()   blocks: without data, fake tensors take the arguments' places
///     4                 the op runs, and libtorch's tracer records its node
///     5  after()        blocks: no fake tensor has changed what the body's tensor would not show
///                       number_arguments: the op's node gets the numbers that it took
///                       value_sizes, blocks: the results are noted
///                       the witness, then dynamic_sizes, see the results
///        failed()       in place of after(): the node is taken out again
///
/// At the end close() asks the parts once more. It raises a rejection that was swallowed, checks
/// numbers that no op took, and solves the dynamic sizes. It rejects modes that are left switched,
/// guards `.grad`s that were read, and takes out needless saves.
///
/// A worked example, with the parts that act:
///
///     def f(x, n):                 graph(%x, %n, %w):
///         y = x * self.w             %y = aten::mul(%x, %w)         inputs: %w is a capture
///         k = int(n)                 %k = aten::item(%n)            a traced number
///         if k > 3:                  %c = tracehost::py_gt(%k, 3)
///             y.mul_(2)              prim::If(%c)                   blocks: one side has data
///                                      block: aten::mul_(%y, 2)     effects: y is the body's
///         cache[k] = y               tracehost::check_number(%k, 5) speculation: a dict key
///         return y[y > 0]            aten::index(%y, ...)           value_sizes: its size
///
/// Requires for every member: the thread of the trace.

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

/// Lives on the stack of trace().
class Trace final : public OpHook {
public:
  Trace(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic, Frontend &frontend,
        Witness *witness, const Outcomes *outcomes);

  // What an op passes, in this order.
  bool runs_aside(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  std::optional<c10::OperatorHandle> instead(const c10::OperatorHandle &op) override;
  void before(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void substitute(const c10::OperatorHandle &op, jit::Stack &stack) override;
  bool is_of_sizes(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  bool keeps_data(const c10::OperatorHandle &op) const override;
  bool records(const c10::OperatorHandle &op) const override;
  void record(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void after(const c10::OperatorHandle &op, jit::Stack &stack) override;
  void failed(const c10::OperatorHandle &op) override;
  // Where nothing is recorded.
  void unrecorded(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  void outside(const c10::OperatorHandle &op, const jit::Stack &stack) override;
  bool abandoned() const override { return rejections.abandoned(); }

  bool without_data() const { return blocks.on_fake_tensors() || frontend.without_data(); }
  bool traces_reads() const { return traces_reads_; }
  Site here() { return frontend.here(); }
  /// The source range of the line that runs now. Ops of one line share a Source.
  const jit::SourceRange &place();
  void forget_casts() { trace::forget_casts(frontend); }
  /// Before a node that libtorch's tracer does not make, and that takes these tensors.
  void prepare_inputs(const std::vector<at::Tensor> &tensors);
  void record_modes() { modes.record_changes(op_depth()); }
  /// Each part forgets the node, which is about to be destroyed.
  void forget(jit::Node *node);
  /// The node that record() has made for the op under way.
  jit::Node *own_node() const { return own_node_; }
  /// The body reads the value of `t` in a way that a graph cannot repeat. value_reads.cpp.
  [[noreturn]] void reject_read(const at::Tensor *t, const std::string &how, const Site &where);
  /// After the body.
  void close();

  // An init_scope block: eager_region.cpp.
  void lift();
  void land(bool at_end = false); ///< after lift(): recording continues
  /// In an eager region: whether the trace made `t`, or was given it as a slot.
  bool is_traced(const at::Tensor &t) const;
  std::optional<EagerRegion> eager_region;

  Frontend &frontend;
  Witness *const witness; ///< null: none
  Traced result;
  std::string raised; ///< a recorded call or an op did: the message for a body that continues
  Rejections rejections{*this};
  Inputs inputs;
  Effects effects{*this};
  Speculation speculation;
  NumberArguments number_arguments{*this};
  ValueSizes value_sizes{*this};
  std::optional<DynamicSizes> dynamic_sizes;
  Blocks blocks{*this};
  Gradients gradients;
  ThreadModes modes = ThreadModes::now(); ///< of the graph so far

private:
  /// An op under way.
  struct Op {
    bool makes_inexact;
    jit::Node *before;            ///< the last node that is not its own
    bool non_blocking;            ///< copy_(non_blocking=True)
    bool raises;                  ///< for some values
    const c10::TensorImpl *first; ///< argument, if that is a tensor
    jit::Value *first_value;
  };
  void recorded(const c10::OperatorHandle &op, const jit::Stack &stack);
  bool reads_size(const c10::OperatorHandle &op, const jit::Stack &stack);
  [[noreturn]] void reject_read(const c10::OperatorHandle &op, const jit::Stack &stack);
  void know_arguments(const c10::OperatorHandle &op, const jit::Stack &stack);
  void note_changes(const c10::OperatorHandle &op, const jit::Stack &stack, bool raises);
  bool makes_inexact(const c10::OperatorHandle &op, const jit::Stack &stack);
  void part_from_argument(const c10::OperatorHandle &op, jit::Stack &stack);
  void note_grads();

  const bool traces_reads_; ///< else each read raises
  const ThreadModes at_call_ = ThreadModes::now();
  std::vector<Op> under_way_; ///< by depth
  jit::Node *own_node_ = nullptr;
  std::shared_ptr<jit::tracer::TracingState> state_; ///< once an op was recorded
  bool reading_size_ = false;                        ///< an op under way reads a traced size
  Site last_site_;
  bool last_undoable_ = false;
  std::optional<jit::SourceRange> last_place_; ///< of the two before
};

/// The innermost trace of this thread; null: none.
extern constinit thread_local Trace *current;

} // namespace tracehost::trace
