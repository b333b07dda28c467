#pragma once

#include "signature/context.h"
#include "signature/grad_read.h"
#include "signature/node.h"
#include "signature/tensor_meta.h"

#include <memory>
#include <string>
#include <vector>

namespace tracehost {

/// A Function's parameters, in the canonical order that arguments are bound to; shared by all its
/// Signatures. `*args` and `**kwargs` are one parameter each (a tuple, a dict).
struct Parameters {
  enum class Kind : std::uint8_t { positional, var_positional, keyword, var_keyword };
  std::vector<std::string> names;
  std::vector<Kind> kinds;           ///< of each; where empty, all are positional
  std::vector<std::string> defaults; ///< of each, as text(); empty for none, and where none has one
};

/// A Python value that the trace read by a path (docs/rules/state.md), and what it held.
struct GuardedSlot {
  std::string path; ///< as a user writes it: `self.scale`, `SCALE (train.py)`, `nonlocal k`
  Node node;        ///< a leaf: literal, atom, or absent
};

/// A hidden tensor input (docs/rules/state.md).
struct CaptureSpec {
  std::string path; ///< `self.fc.weight`; `tensor used at train.py:12` where it has no path
  TensorMeta meta;
  std::int32_t same_as_slot = -1; ///< the Slot that has the same tensor, or -1
  bool held = false;              ///< it has no path: the Specialization keeps it alive
};

/// A number that the body computes and that a graph was made for.
struct CheckedNumber {
  std::string where; ///< the line that needs it, `net.py:12`
  std::string value; ///< `True`, `3`
  bool operator==(const CheckedNumber &) const = default;
};

/// All that a call is compared by.
///
/// `nodes` holds one subtree for each parameter, in the order of `parameters`; a tensor that occurs
/// twice is one Slot, so the alias pattern is part of the tree. `guarded` and `captures` are known
/// only after a trace; a request's Signature has them for the Specialization it is compared with.
struct Signature {
  std::shared_ptr<const Parameters> parameters;
  std::vector<Node> nodes;
  std::vector<AtomRef> atoms; ///< owns what `nodes` and `guarded` point to
  std::vector<TensorMeta> slots;
  Context context;
  std::vector<GuardedSlot> guarded;
  std::vector<CaptureSpec> captures;
  std::vector<SizeCondition> conditions; ///< on dynamic dimensions; known only after a trace
  std::vector<CheckedNumber> checked; ///< that the graph checks while it runs; no request has any
  std::vector<GradRead> grads;        ///< that the body read, by input; known only after a trace
  bool reads_strides =
      false;               ///< the body read strides or contiguity: slots and captures compare them
  bool reads_leaf = false; ///< the body read is_leaf

  /// Index of the subtree of parameter `index`.
  std::size_t subtree(std::size_t index) const;
  /// Whether something it refers to weakly is gone.
  bool alive() const;
  /// How a user reaches an input of the graph: a slot or, past them, a capture.
  std::string input_path(std::uint32_t input) const;
  /// Whether a slot has a dynamic dimension.
  bool is_dynamic() const;
  /// The first node of slot `slot`: its path() names the slot.
  std::size_t first_node(std::uint32_t slot) const;
};

/// Whether two leaf or container nodes hold the same (kind, payload, extent); slots by index.
bool same(const Node &a, const Node &b);

/// `(x: float32[8, 3], n=2, mode='train', y=x)`: for reports. `y=x`: the same tensor.
std::string text(const Signature &signature);
/// `(x: float32[8, 3], n=2) with grad mode off`: the arguments, and the modes that are not as
/// usual. Nothing that only a trace finds: no guards, captures and checks.
std::string call_text(const Signature &signature);
/// Whether an argument or a capture lies on a device other than the CPU.
bool is_on_device(const Signature &signature);
/// A leaf as a user would write it: `2`, `'relu'`, `float32[8, 3]`; a container as `tuple of 2`.
std::string text(const Signature &signature, const Node &node);
/// How to reach node `index`: `x`, `batch['image'][0]`, `cfg.lr`.
std::string path(const Signature &signature, std::size_t index);

} // namespace tracehost
