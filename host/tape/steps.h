#pragma once

#include "tape/kernels.h"
#include "tape/out_kernels.h"
#include "tape/tape.h"

#include <torch/csrc/jit/runtime/operator.h>

namespace tracehost::tape {

/// One of ATen's kernels over memory that is there.
struct Tape::KernelStep final : Tape::Step {
  KernelStep(const Kernel &kernel, c10::Scalar alpha, at::TensorIterator iterator)
      : run_kernel(kernel.run), alpha(std::move(alpha)), iterator(std::move(iterator)) {}
  void run(Tape &) override { run_kernel(iterator, alpha); }

  void (*run_kernel)(at::TensorIteratorBase &, const c10::Scalar &);
  c10::Scalar alpha;
  at::TensorIterator iterator;
};

/// An op that writes to a fixed tensor.
struct Tape::OutStep final : Tape::Step {
  explicit OutStep(OutKernel kernel) : kernel(std::move(kernel)) {}
  void run(Tape &) override { kernel(); }

  OutKernel kernel;
};

/// An op through the dispatcher. Its arguments are fixed; its results are other memory each time.
struct Tape::CallStep final : Tape::Step {
  explicit CallStep(jit::Operation operation) : operation(std::move(operation)) {}
  void run(Tape &tape) override;

  jit::Operation operation;
  std::vector<c10::IValue> arguments;
  std::vector<std::size_t> results; ///< roots
  jit::Stack stack;
};

} // namespace tracehost::tape
