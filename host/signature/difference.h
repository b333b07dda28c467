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
  guarded,   ///< a closure cell, global or attribute changed
  capture,   ///< a captured tensor's dtype, shape ... changed
  condition, ///< sizes fit, but compare otherwise than they did when the body read it
  read,      ///< a value of an input that the body read as a number
};
const char *name(Cause cause); ///< "shape", "requires_grad" ...

struct Difference {
  Cause cause;
  std::string path;       ///< the argument's, slot's or capture's path; the field for context
  int dimension = -1;     ///< for Cause::shape; Cause::capture: the first, where only sizes differ
  std::string before;     ///< what the Specialization has, as text
  std::string after;      ///< what the request brought
  int rank = -1;          ///< for Cause::shape: number of dimensions
  std::string where = {}; ///< for Cause::read: the line that read it
  bool operator==(const Difference &) const = default;
};

/// All differences, in the order of the tree: arguments, then context, guarded slots, captures.
/// `request` may lack `guarded` and `captures`; then they take no part. A dynamic size matches each
/// size. A size condition that the request's dynamic sizes leave open is no difference. May run a
/// user's `__eq__`, so it must not be called under a lock.
std::vector<Difference> differences(const Signature &specialization, const Signature &request);

/// Finds the Signature that is nearest to a request, by distance(); the latest of equals.
struct Nearest {
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);
  std::size_t index = npos;            ///< npos while nothing was considered
  std::vector<Difference> differences; ///< of that Signature from its request

  /// Takes a Signature into account that differs from the request so. In any order.
  void consider(std::size_t index, std::vector<Difference> found);
  /// Whether a Signature that is at least so far away can be the nearest.
  bool may_be(std::size_t index, int least) const;
  /// Takes `specialization` into account, with the request as it looks from there. May run a user's
  /// `__eq__`: never under a lock.
  void consider(std::size_t index, const Signature &specialization, const Signature &request);
};
/// What Nearest minimises: one changed size weighs less than another type or structure.
int distance(const std::vector<Difference> &differences);
/// The distance of what differs in one thing.
int least_distance();

} // namespace tracehost
