#pragma once

#include "pytree/binder.h"
#include "signature/signature.h"

#include <string>
#include <vector>

namespace tracehost::python {

/// What the tensor inputs of a graph are called, by slot: as the first parameter that has them,
/// with keys and indices, unique and fit for a keyword.
///
///     def f(x, batch, *xs, **kw)     x   batch['image'] -> batch_image   xs_0   kw['a'] -> a
///
/// `given`: by slot, a name of the user's, or empty. Requires: GIL held.
std::vector<std::string> input_names(const Signature &signature, const Binder &binder,
                                     const std::vector<std::string> &given);

} // namespace tracehost::python
