#pragma once

#include "runtime/bind.h"
#include "signature/signature.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <vector>

/// C++ values against Signatures: the one comparison of a call from C++.
///
/// Fast path: matches(), one lockstep walk over the nodes and the values that fills the slots.
/// Slow path: signature_like(), the call's own Signature, for differences (signature/difference.h).
///
///     nodes    0 tensor slot 0 | 1 tuple end 4 | 2 tensor slot 1 | 3 integer 2
///     values   Tensor x        | Tuple{        |   Tensor y      |   3 }         node 3 differs

namespace tracehost::runtime {

/// The tensors of a call in the order of a Signature's slots; they are the caller's.
using Slots = c10::SmallVector<const at::Tensor *, 8>;

/// Hot. Whether the arguments are what `signature` has; the context, sizes' conditions and what the
/// body read take no part. `requires_grad`: whether that does.
bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             bool requires_grad, Slots &slots);

/// The same of arguments that are nodes: a subtree for each parameter, and tensors by slot.
bool matches(const Signature &signature, const std::vector<Node> &nodes,
             const std::vector<at::Tensor> &tensors, bool requires_grad, Slots &slots);

/// The Signature of the arguments, without context; containers that can be those of `guide` are.
/// Fills `slots`. Throws SignatureError for what no signature has: an undefined tensor.
Signature signature_like(const Signature &guide, const Binder &binder, const Bound &bound,
                         std::vector<at::Tensor> &slots);

/// A result's tree of nodes as a value; tensors by slot, those that are marked as numbers as ints.
Value value_of(const std::vector<Node> &nodes, c10::ArrayRef<at::IValue> tensors);

} // namespace tracehost::runtime
