#pragma once

#include "signature/signature.h"

#include <string>
#include <vector>

namespace tracehost {

/// Why one Signature does not serve a request made with another.
enum class Cause {
  shape, ///< one dimension; Difference::dimension
  rank,  ///< number of dimensions
  dtype,
  device,
  layout, ///< layout, strides, conj, neg, inference bits
  requires_grad,
  subclass,  ///< class of the tensor
  alias,     ///< which inputs are the same tensor
  value,     ///< a Python number, string ... of the same type
  type,      ///< another Python type: None -> Tensor, int -> float, list -> tuple
  structure, ///< length or keys of a container
  object,    ///< another object (function, module, instance) at the same place
  context,   ///< grad mode, autocast, default dtype ...
  watched,   ///< a closure cell, global or attribute changed
  capture,   ///< a captured tensor's dtype, shape ... changed
};
const char *name(Cause cause); ///< "shape", "requires_grad" ...

struct Difference {
  Cause cause;
  std::string path;   ///< the argument's, slot's or capture's path; the field for context
  int dimension = -1; ///< for Cause::shape
  std::string before; ///< what the Specialization has, as text
  std::string after;  ///< what the request brought
  int rank = -1;      ///< for Cause::shape: number of dimensions
  bool operator==(const Difference &) const = default;
};

/// All differences, in the order of the tree: arguments, then context, watched, captures.
/// `request` may lack `watched` and `captures`; then they take no part.
/// May run a user's `__eq__`: never under a lock.
std::vector<Difference> differences(const Signature &specialization, const Signature &request);

/// Index of the Signature with the fewest differences from `request` (the latest of equals) and
/// those differences; npos when there is none.
struct Nearest {
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  std::size_t index = npos;
  std::vector<Difference> differences;
};
Nearest nearest(const std::vector<const Signature *> &specializations, const Signature &request);

/// What `nearest` minimises: one changed size weighs less than another type or structure.
int distance(const std::vector<Difference> &differences);

} // namespace tracehost
