#pragma once

#include "signature/difference.h"
#include "signature/signature.h"

#include <vector>

/// Dynamic dimensions: how Signatures that hold them relate (docs/guides/input-signature.md).

namespace tracehost {

/// Whether `a`'s tensors are those of `b` but for sizes, none of them wider, and one narrower: what
/// `a` serves, `b` serves as far as sizes go.
bool is_narrower(const Signature &a, const Signature &b);

/// Whether `a`'s user types are those of `b` but for some that are below theirs. May run user code.
bool types_are_narrower(const Signature &a, const Signature &b);

/// Whether dynamic dimensions can make the Signatures one that differ so: they differ in sizes
/// alone.
bool only_sizes(const std::vector<Difference> &differences);

/// Whether a declaration can make them one: they differ in sizes, ranks and Python numbers alone.
bool only_declarable(const std::vector<Difference> &differences);

/// Makes each dimension of `request` dynamic that differs in size from `earlier`'s. Requires: they
/// have the same tree, and tensors of the same ranks.
void generalize(Signature &request, const Signature &earlier);

/// Gives dimension `dimension` of slot `slot` a size again.
void specialize(Signature &signature, std::uint32_t slot, std::size_t dimension, std::int64_t size);

} // namespace tracehost
