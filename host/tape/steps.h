#pragma once

#include "region/region.h"
#include "tape/kernels.h"
#include "tape/out_kernels.h"
#include "tape/tape.h"

#include <torch/csrc/jit/runtime/operator.h>

namespace tracehost::tape {

/// An argument that is another one at each call.
struct SlotArgument {
  std::size_t at;   ///< the argument's place
  std::size_t slot; ///< whose value it is
};

/// One of ATen's kernels over memory that is there.
struct Tape::KernelStep final : Tape::Step {
  KernelStep(const Kernel &kernel, c10::Scalar alpha, at::TensorIterator iterator)
      : run_kernel(kernel.run), alpha(std::move(alpha)), iterator(std::move(iterator)) {}
  bool run(Tape &tape) override {
    if (!numbers.empty() || alpha_slot) [[unlikely]]
      set_numbers(tape);
    run_kernel(iterator, alpha);
    return true;
  }
  void set_numbers(Tape &tape);

  void (*run_kernel)(at::TensorIteratorBase &, const c10::Scalar &);
  c10::Scalar alpha;
  at::TensorIterator iterator;
  std::vector<SlotArgument> numbers; ///< operands of the iterator
  std::optional<std::size_t> alpha_slot;
};

/// An op that writes to a fixed tensor.
struct Tape::OutStep final : Tape::Step {
  explicit OutStep(OutKernel kernel) : kernel(std::move(kernel)) {}
  bool dispatches() const override { return kernel.dispatches; }
  bool run(Tape &) override {
    kernel();
    return true;
  }

  OutKernel kernel;
};

/// Pointwise ops as one function.
struct Tape::RegionStep final : Tape::Step {
  RegionStep(std::unique_ptr<region::Region> region, std::int64_t numel)
      : region(std::move(region)), numel(numel) {}
  bool run(Tape &) override {
    region->run(inputs.data(), outputs.data(), numel);
    return true;
  }

  std::unique_ptr<region::Region> region;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  std::int64_t numel;
};

/// An op through the dispatcher. Its tensors are fixed tensors, its results other memory each time.
struct Tape::CallStep final : Tape::Step {
  explicit CallStep(jit::Operation operation) : operation(std::move(operation)) {}
  bool run(Tape &tape) override;
  bool calls() const override { return true; }
  bool dispatches() const override { return true; }

  /// What becomes of a result.
  struct Result {
    enum class To : std::uint8_t { root, slot, list, nothing } to = To::nothing;
    std::size_t index = 0;
    at::Tensor fixed = {}; ///< of a root: a result of other sizes or strides ends the run
    std::vector<Result> elements = {}; ///< of a list
    bool moves = false;                ///< a view at another place each time
    bool exposed = false; ///< of an outlined op: the caller may see whether it is a copy
  };
  bool is_given(const Result &kind, const c10::IValue &result) const;
  bool is_seen_copy(std::size_t result) const;
  void run_counted(Tape &tape);
  static bool take(Tape &tape, const Result &result, c10::IValue value);
  jit::Operation operation;
  std::vector<c10::IValue> arguments;
  std::vector<SlotArgument> slots;
  std::vector<Result> results;
  std::vector<std::size_t> spent; ///< roots of earlier results that nobody reads any more
  jit::Stack stack;
  bool is_outlined = false; ///< blocks.h
  /// Of an outlined op: a result that is a copy of what it was given ends the run.
  bool ends_if_copied = false;
  /// An argument that a block writes to, and its root: how often differs between runs.
  struct Counted {
    at::Tensor tensor;
    std::size_t root;
  };
  std::vector<Counted> counted;
};

/// A list of numbers, some of which are other ones at each call.
struct Tape::ListStep final : Tape::Step {
  bool run(Tape &tape) override;

  const jit::Node *node; ///< the `prim::ListConstruct`
  std::vector<c10::IValue> items;
  std::vector<SlotArgument> slots;
  std::size_t result; ///< slot
};

} // namespace tracehost::tape
