#pragma once

#include "tape/guards.h"
#include "tape/output_memory.h"
#include "tape/training.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// Kernel tapes: settled calls of a graph without libtorch's interpreter.
///
/// Problem. An op on a small tensor takes libtorch 300 to 500 ns, and its kernel takes 25. The rest
/// is the dispatcher, the result's memory, a tensor object and a TensorIterator, all new at each
/// call.
///
/// Fast path. A tape has these for one graph and one set of sizes. Memory is planned once, the
/// iterators stand over it, and a call runs one kernel after another:
///
///     1. The guards hold for the inputs and the thread's settings (guards.h), else the interpreter
///     2. Inputs and new outputs are bound: their addresses go into the iterators that use them
///     3. The steps run: a kernel (kernels.h), several as machine code (region/region.h), or an op
///        through the dispatcher below autograd
///     4. The outputs are pushed on a stack
///
/// Slow path. The second call with the same sizes is recorded (record.cpp: evaluate.cpp,
/// build.cpp). Each op runs on copies of the inputs, by the interpreter's own code. It says sizes,
/// strides and who shares memory with whom. A kernel whose bits differ from the op's result is not
/// used. Consecutive pointwise kernels become one region at the recording (group.h, regions.cpp).
///
/// A run ends early where an op throws, or gives other sizes than it gave then. The interpreter
/// then serves the call from its start. Written inputs and torch's generator are restored before,
/// from copies that a call makes only if it may end early behind a write.
///
/// Data layout. A Root is memory: of an input, a constant, a result. Views share a root; on a tape
/// they are fixed tensors, and cost nothing. The memory of a result that no output has is taken
/// from a pool, and given back behind the last op that reads it. A number that a call computes is
/// in a slot; one that follows from sizes is a constant.
///
///     y = x * 2                step 0: mul_stub over (root 1, root 0), root 0 bound to x
///     z = y.t() + 1            step 1: add_stub over (root 2, root 1): y.t() is no step
///     return z[0], z           root 2 bound to a new tensor; its view is made of it at the end
///
/// A training step becomes a graph without autograd first (training.h).
///
/// One thread uses a tape at a time. Threads that run a graph at once have a tape each (tapes.h).

namespace tracehost::tape {

namespace jit = torch::jit;

/// One graph for one set of sizes.
class Tape {
public:
  /// Records a run on copies of `inputs`. Null, and `why`: the graph can't have a tape.
  static std::unique_ptr<Tape> record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                      std::string &why);
  ~Tape();

  Guards &guards() { return guards_; }
  /// Hot. Whether the tape serves such inputs, under its settings.
  bool holds(c10::ArrayRef<c10::IValue> inputs);
  /// Pushes the outputs on `outputs`. False where the run ends early: `outputs` and grad mode are
  /// as they were. Throws what `interruptible` throws; no other exception. Requires: the guards
  /// hold; one thread at a time.
  bool run(c10::ArrayRef<c10::IValue> inputs, jit::Stack &outputs, void (*interruptible)());
  /// Whether no Python can run in run(), so that the caller's inputs need no owners for it.
  bool is_quiet() const { return is_quiet_; }
  /// Whether ATen's code may call ops in run(), and warn.
  bool dispatches() const { return dispatches_; }

  std::size_t ops() const { return ops_; }         ///< but views
  std::size_t kernels() const { return kernels_; } ///< ops that are kernels, or in a region
  std::size_t regions() const { return regions_; }
  std::size_t steps() const { return steps_.size(); }
  std::size_t bytes() const { return bytes_; } ///< of planned memory
  /// Whether an early end restores something, which another thread may have changed meanwhile.
  bool restores() const { return saves_; }

private:
  friend class Recording;

  /// An operand of an iterator that is bound at each call.
  struct Patch {
    at::TensorIteratorBase *iterator;
    int operand;
    std::ptrdiff_t offset; ///< in bytes from the root's start
  };
  /// The same of a region.
  struct Pointer {
    const void **place;
    std::ptrdiff_t offset;
  };
  /// Memory that is another one at each call: of an input, an output, a result of an op.
  struct Root {
    c10::Storage storage;     ///< of the fixed tensors over it
    bool has_tensors = false; ///< an op that is called reads them
    std::vector<Patch> patches;
    std::vector<Pointer> pointers;
  };
  struct Step {
    virtual ~Step() = default;
    /// False: the run ends early.
    virtual bool run(Tape &tape) = 0;
    /// Whether it calls an op by its schema, which may be Python's.
    virtual bool calls() const { return false; }
    /// Whether ATen's code in it may call ops.
    virtual bool dispatches() const { return false; }
  };
  struct KernelStep;
  struct RegionStep;
  struct OutStep;
  struct CallStep;
  struct ListStep;
  /// A tensor that each call makes, for one or more outputs.
  struct Fresh {
    std::size_t root;
    std::vector<std::int64_t> sizes, strides;
    c10::ScalarType dtype;
    std::int64_t version; ///< so often the graph writes to it
    std::size_t bytes;
    bool is_contiguous;
    OutputMemory memory = {};

    at::Tensor make();
  };
  /// An op that makes a view, for an output.
  struct View {
    jit::Operation operation;
    std::vector<c10::IValue> arguments; ///< the base is the first
    std::size_t element;                ///< of a list of views
  };
  struct Output {
    enum class From : std::uint8_t { input, fresh, called, constant, slot, detached, earlier } from;
    std::size_t index; ///< of an input; in fresh_; of a root; of a slot; in detached_; of an output
    c10::IValue value; ///< a constant
    std::vector<View> views;
    bool takes_made = false; ///< fresh, and no other output has the tensor or a view of it
  };
  c10::IValue output(Output &output, c10::ArrayRef<c10::IValue> given,
                     c10::ArrayRef<c10::IValue> before);
  void bind_all(c10::ArrayRef<c10::IValue> given);
  bool run_flat(c10::ArrayRef<c10::IValue> given, jit::Stack &outputs, void (*interruptible)());
  bool run_steps(c10::ArrayRef<c10::IValue> given, void (*interruptible)());
  void bump_versions(c10::ArrayRef<c10::IValue> given) const;
  void note_kinds(bool switches_grad);
  void save(c10::ArrayRef<c10::IValue> given);
  void restore(c10::ArrayRef<c10::IValue> given) const;
  void make_bases();

  explicit Tape(c10::ArrayRef<c10::IValue> inputs) : guards_(inputs) {}
  void bind(std::size_t root, void *data);

  /// Of a graph that reads or sets gradients (training.h): the tape is one of the flat graph.
  struct Training {
    Leaves leaves;
    FlatGraph flat;
    std::optional<AttentionChoice> attention; ///< none: the graph has no attention
    std::vector<c10::IValue> given;           ///< of the call: inputs and gradients
  };
  static std::unique_ptr<Tape> record_training(const jit::Graph &graph,
                                               c10::ArrayRef<c10::IValue> inputs);
  static std::unique_ptr<Tape>
  record_flat(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs, const Versions *below);

  Guards guards_;
  std::unique_ptr<Training> training_;
  std::vector<Root> roots_; ///< those of inputs first
  /// Of each input: its root, or its slot if it is a number, or nothing.
  struct Given {
    enum class To : std::uint8_t { root, slot, nothing } to;
    std::size_t index;
  };
  std::vector<Given> inputs_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<Fresh> fresh_;
  std::vector<Output> detaches_; ///< results of detach() that outputs are, or are views of
  std::vector<Output> outputs_;
  /// An input that the graph writes to.
  struct Written {
    std::size_t input;
    std::int64_t version; ///< so often
    at::Tensor saved;     ///< bytes of before; undefined: none are needed
  };
  std::vector<Written> written_;
  // Which parts a run has: note_kinds().
  bool is_quiet_ = false;
  bool dispatches_ = false;
  bool counts_writes_ = false; ///< versions are to be bumped
  bool switches_grad_ = false;
  bool saves_ = false; ///< something, before each run
  bool saves_generator_ = false;
  std::ptrdiff_t first_effect_ = PTRDIFF_MAX; ///< the first step whose effect is not undone
  at::Tensor generator_;                      ///< its state before the run
  /// Roots of ops' results that the graph writes to, and how often.
  std::vector<std::pair<std::size_t, std::int64_t>> versions_;
  /// By root: how often loops and branches have written in this run. Empty: they don't.
  std::vector<std::int64_t> by_blocks_;
  /// What makes the base of an op's result that is a view for autograd, by root.
  std::map<std::size_t, jit::Operation> bases_;
  // Of the run under way:
  std::vector<at::Tensor> called_;   ///< by root: what an op gave
  std::vector<at::Tensor> made_;     ///< by place in fresh_
  std::vector<at::Tensor> detached_; ///< by place in detaches_
  std::vector<c10::IValue> slots_;
  std::vector<at::Tensor> kept_; ///< tensors that iterators stand over
  std::size_t ops_ = 0, kernels_ = 0, regions_ = 0, bytes_ = 0;
};

} // namespace tracehost::tape
