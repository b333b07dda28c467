#pragma once

/// What a body reads of how a tensor lies in memory, and of two tensors' sizes, while it is traced.
///
/// Problem: `y.stride()` and `y.is_contiguous()` give plain numbers, which another size of an input
/// changes. Answer: where sizes are dynamic or depend on values, the body gets a number that the
/// graph reads. Elsewhere it gets eager's answer, which is part of the signature.
///
///     y = x[:n].t(); y.stride(0)     %3 : int = aten::stride(%2, 0)
///     y.contiguous()                 a contiguous `y` is itself the result: checked
///     a.is_same_size(b)              a.shape == b.shape

namespace tracehost::python {

/// Requires: GIL held. Throws.
void install_layout_patches();

} // namespace tracehost::python
