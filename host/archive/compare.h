#pragma once

#include "cache/specialization.h"
#include "signature/context.h"
#include "signature/signature.h"
#include "signature/tensor_fit.h"

#include <ATen/core/Tensor.h>

/// By what a call is compared with a Specialization of an archive, besides its tree of nodes: one
/// rule for calls from Python and from C++ (runtime/loaded.cpp). More may differ than in a
/// Function's own cache, as nothing can be traced here: ops find out by themselves whether
/// gradients are recorded, and the casts of an autocast that it was traced under are in the graph.

namespace tracehost::archive {

/// `now` with what takes no part as it was at the trace: equal to the trace's Context where the
/// graph may serve. `inference`: it runs in an InferenceMode of the call's own.
Context as_compared(const Specialization &specialization, const Context &now, bool inference);

/// The request as it looks from a Specialization, without what may differ: what differs still is
/// why it does not serve. `tensors`: the request's slots.
Signature seen_from(const Specialization &specialization, Signature request,
                    c10::ArrayRef<at::Tensor> tensors, bool inference);

} // namespace tracehost::archive
