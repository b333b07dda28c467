#pragma once

#include "base/object.h"
#include "pytree/container.h"
#include "pytree/pytree.h"

#include <Python.h>

#include <functional>
#include <unordered_map>
#include <utility>

/// Values with other leaves in the same containers.

namespace tracehost::python {

/// Replaces leaves at any depth. A container is copied where something in it is replaced, and only
/// there; what was one object is one object in the result, too.
///
/// Requires for every member: GIL held.
class Rebuild {
public:
  /// A new reference to what stands in for a leaf; null to keep it. Throws.
  using Leaf = std::function<PyObject *(PyObject *leaf)>;
  /// `each`: a leaf that is met twice is asked for twice, as are containers.
  explicit Rebuild(Leaf leaf, bool each = false) : leaf_(std::move(leaf)), each_(each) {}

  /// A new reference. Throws what `leaf`, or a container's own code, raises, and as flatten() does
  /// for a container that contains itself.
  Owned value(PyObject *object);

private:
  Owned container(PyObject *object, const ContainerType &type);

  Leaf leaf_;
  const bool each_;
  Nesting nesting_;
  /// By the object replaced, which is held so that its address stays its own.
  std::unordered_map<PyObject *, std::pair<Owned, Owned>> made_;
};

} // namespace tracehost::python
