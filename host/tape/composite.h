#pragma once

#include <ATen/core/stack.h>
#include <c10/util/FunctionRef.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>

/// Ops that are made of other ops, and choose these by what autograd knows of their arguments.

namespace tracehost::tape {

namespace jit = torch::jit;

/// Whether the op is made of ops that autograd sees. Of an op that is not known: yes.
bool is_composite(const jit::Node &node);

/// Runs with views as eager has them, where an argument requires a gradient, or with versions.
/// matmul() and linear() fold a batch if a view of the weight requires one, in no_grad(), too.
/// Below autograd a view requires none. The results are no views of other tensors, as below
/// autograd.
void with_views(jit::Stack &stack, std::size_t inputs, std::size_t outputs, bool versions,
                c10::function_ref<void(jit::Stack &)> run);

} // namespace tracehost::tape
