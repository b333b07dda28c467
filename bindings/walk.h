#pragma once

#include "binding.h"
#include "signature/signature.h"

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

/// Python arguments as a Signature's tree, and the comparison with one. The two walks visit the
/// same things in the same order: parameters as declared, children as described in
/// signature/node.h. Requires for all: GIL held.

namespace tracehost::python {

/// Node::reserved[0]: the leaf is an object that paths may start from (environment/).
inline constexpr std::uint8_t kRoot = 1;
/// As kRoot, but its type says itself what it is compared by: only tensors in it are looked at.
inline constexpr std::uint8_t kTypedRoot = 2;

/// How deep containers may be in each other.
inline constexpr std::size_t kDeepest = 50;

/// Containers around a value: refuses those that contain themselves or are too deep.
class Nesting {
public:
  /// Throws SignatureError.
  void enter(PyObject *container);
  void leave() { open_.pop_back(); }

private:
  std::vector<PyObject *> open_;
};

/// Whether its class is a dataclass.
bool is_dataclass(PyObject *object);

/// What flattening finds besides the Signature.
struct Flattened {
  std::vector<PyObject *> tensors; ///< by slot; borrowed
  std::vector<PyObject *> roots;   ///< leaves marked kRoot, in order; borrowed
  std::vector<std::size_t> root_nodes;
};

/// Fills nodes, atoms and slots. Throws SignatureError for what can't be compared: sets, arrays,
/// cycles, trees deeper than kDeepest. `self`: null, or the instance whose method is called, which
/// as first argument is compared by identity whatever its class says.
void flatten(const Binder &binder, const Bound &bound, PyObject *self, Signature &signature,
             Flattened &found);
/// One value as a tree of its own, for results. `objects`: for each node but tensors, its leaf, or
/// its type if it is a container; borrowed.
void flatten(PyObject *value, std::vector<Node> &nodes, std::vector<AtomRef> &atoms,
             std::vector<PyObject *> &tensors, std::vector<PyObject *> &objects);

/// Throws the exception being handled; a SignatureError's message then starts with `subject`.
[[noreturn]] void rethrow_about(const std::string &subject);

/// What matches() collects; on the caller's stack, reused for each candidate.
struct Collected {
  c10::SmallVector<PyObject *, 16> tensors; ///< by slot
  c10::SmallVector<PyObject *, 8> roots;
};

/// Hot. Whether the arguments have the Signature's tree; fills `found`. No allocation up to 16
/// tensors and 8 objects, no Python `__eq__` unless an equality leaf's pointer differs.
bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             Collected &found);

} // namespace tracehost::python
