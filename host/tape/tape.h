#pragma once

#include "tape/guards.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

/// Kernel tapes: settled calls of a graph without libtorch's interpreter.
///
/// Problem. An op on a small tensor takes libtorch 300 to 500 ns and its kernel 25: the rest is the
/// dispatcher, the result's memory, a tensor object and a TensorIterator, all new at each call.
///
/// Fast path. A tape has these for one graph and one set of sizes. Memory is planned once, the
/// iterators stand over it, and a call runs one kernel after another:
///
///     1. The guards hold for the inputs and the thread's settings (guards.h), else the interpreter
///     2. Inputs and new outputs are bound: their addresses go into the iterators that use them
///     3. The steps run: a kernel (kernels.h), or an op through the dispatcher below autograd
///     4. The outputs go to the stack
///
/// Slow path. The second call with the same sizes is recorded (evaluate.cpp, build.cpp): each op
/// runs on copies of the inputs, by the interpreter's own code, and says sizes, strides and who
/// shares memory with whom. A kernel whose bits differ from the op's result is not used.
///
/// Data layout. A Root is memory: of an input, a constant, a result. Views share a root; on a tape
/// they are fixed tensors, and cost nothing. The memory of a result that no output has is taken
/// from a pool, and given back behind the last op that reads it.
///
///     y = x * 2                step 0: mul_stub over (root 1, root 0), root 0 bound to x
///     z = y.t() + 1            step 1: add_stub over (root 2, root 1): y.t() is no step
///     return z                 root 2 bound to a new tensor
///
/// One thread uses a tape at a time; another one that comes meanwhile runs the interpreter.

namespace tracehost::tape {

namespace jit = torch::jit;

/// One graph for one set of sizes.
class Tape {
public:
  /// Records a run on copies of `inputs`. Null, and `why`: the graph can't have a tape.
  static std::unique_ptr<Tape> record(const jit::Graph &graph, c10::ArrayRef<c10::IValue> inputs,
                                      std::string &why);
  ~Tape();

  const Guards &guards() const { return guards_; }
  /// Consumes the inputs on `stack` and leaves the outputs, as Program::run(). Requires: the guards
  /// hold; one thread at a time.
  void run(jit::Stack &stack);
  /// The same, or false where an op throws: `stack` is as it was, and the graph writes nothing.
  bool try_run(jit::Stack &stack);

  std::size_t kernels() const { return kernels_; } ///< steps that are kernels
  std::size_t steps() const { return steps_.size(); }
  std::size_t bytes() const { return bytes_; } ///< of planned memory

private:
  friend class Recording;

  /// An operand of an iterator that is bound at each call.
  struct Patch {
    at::TensorIteratorBase *iterator;
    int operand;
    std::ptrdiff_t offset; ///< in bytes from the root's start
  };
  /// Memory that is another one at each call: of an input, an output, a result of an op.
  struct Root {
    c10::Storage storage;     ///< of the fixed tensors over it
    bool has_tensors = false; ///< an op that is called reads them
    std::vector<Patch> patches;
  };
  struct Step {
    virtual ~Step() = default;
    virtual void run(Tape &tape) = 0;
  };
  struct KernelStep;
  struct OutStep;
  struct CallStep;
  struct Output {
    enum class From : std::uint8_t { input, fresh, called, earlier } from;
    std::size_t index; ///< of an input; of a root; of a root whose op's result it is; of an output
    std::vector<std::int64_t> sizes, strides;
    c10::ScalarType dtype;
  };

  explicit Tape(c10::ArrayRef<c10::IValue> inputs) : guards_(inputs) {}
  void bind(std::size_t root, void *data);

  Guards guards_;
  std::vector<Root> roots_; ///< those of inputs first
  std::vector<std::size_t> input_roots_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<Output> outputs_;
  std::vector<at::Tensor> called_; ///< by root: what an op gave in the run under way
  std::vector<at::Tensor> kept_;   ///< tensors that iterators stand over
  std::size_t kernels_ = 0, bytes_ = 0;
};

/// The tapes of one graph, made as its calls settle.
class Tapes {
public:
  explicit Tapes(const jit::Graph &graph);
  ~Tapes();
  /// Hot. Runs a call by a tape. False: none serves it, and `stack` is as it was.
  bool run(jit::Stack &stack);
  /// What serves: `tape`; else why not.
  std::string describe() const;

  /// Whether this process makes tapes: TRACEHOST_OPTIMIZE=exact.
  static bool enabled();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace tracehost::tape
