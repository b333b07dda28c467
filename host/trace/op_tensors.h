#pragma once

#include "trace/op_traits.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>

/// The tensors that an op is called with, as they lie on its stack.

namespace tracehost::trace {

/// Calls `f` with each defined tensor among `values`, in lists and optionals too.
template <class F> void each_tensor(c10::ArrayRef<c10::IValue> values, const F &f) {
  for (const auto &value : values) {
    if (value.isTensor()) {
      if (value.toTensor().defined())
        f(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor &t : value.toTensorVector())
        if (t.defined())
          f(t);
    } else if (value.isList()) {
      each_tensor(value.toListRef(), f);
    } else if (value.isTuple()) {
      each_tensor(value.toTupleRef().elements(), f);
    }
  }
}

inline c10::ArrayRef<c10::IValue> arguments_of(const c10::OperatorHandle &op,
                                               const torch::jit::Stack &stack) {
  const auto count = op.schema().arguments().size();
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
}

inline c10::ArrayRef<c10::IValue> results_of(const c10::OperatorHandle &op,
                                             const torch::jit::Stack &stack) {
  const auto count = op.schema().returns().size();
  return c10::ArrayRef<c10::IValue>(stack).slice(stack.size() - count);
}

/// Calls `f` with each tensor that the op writes: by its schema, or as a running statistic of
/// batch_norm and its kin, which do not declare it.
void each_written(const c10::OperatorHandle &op, const torch::jit::Stack &stack,
                  const std::function<void(const at::Tensor &)> &f);

} // namespace tracehost::trace
