#pragma once

#include "base/object.h"
#include "pytree/binder.h"
#include "pytree/user_value.h"
#include "signature/signature.h"

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

/// Python arguments as a Signature's tree, and the comparison with one. The two walks visit the
/// same things in the same order: parameters as declared, children as described in
/// signature/node.h. Requires for all: GIL held.

namespace tracehost::python {

/// Node::reserved[0]: the leaf is an object that paths may start from (guards/).
inline constexpr std::uint8_t kRoot = 1;
/// As kRoot, but its type says itself what it is compared by: only tensors in it are looked at.
inline constexpr std::uint8_t kTypedRoot = 2;
/// As kRoot, compared by its own equality: equal objects come in each other's place.
inline constexpr std::uint8_t kEqualRoot = 3;
/// As kRoot, compared by its class (may_be_another()): what is read of it is compared as well.
inline constexpr std::uint8_t kAlikeRoot = 4;

/// Node::reserved[1]: the leaf is the parameter's default, which is compared by identity first and
/// leads nowhere: the same object is the same value.
inline constexpr std::uint8_t kDefault = 1;

/// How deep containers may be in each other.
inline constexpr std::size_t kDeepest = 200;

/// Containers around a value. Raises for those that contain themselves or are too deep.
class Nesting {
public:
  /// Throws SignatureError.
  void enter(PyObject *container);
  void leave() { open_.pop_back(); }

private:
  std::vector<PyObject *> open_;
};

/// What flattening finds besides the Signature.
struct Flattened {
  std::vector<PyObject *> tensors; ///< by slot; borrowed
  std::vector<PyObject *> roots;   ///< leaves marked kRoot, in order; borrowed
  std::vector<std::size_t> root_nodes;
  std::vector<Owned> kept; ///< what only a user's code has made, and the tensors
};

/// Fills nodes, atoms and slots. Throws SignatureError for what can't be compared: sets, arrays,
/// cycles, trees deeper than kDeepest. `self`: null, or the instance whose method is called. As
/// first argument it is compared by identity, regardless of its class.
/// `values`: what users' types make of their objects. `alike`: objects are compared by their class
/// where others may come in their place.
void flatten(const Binder &binder, const Bound &bound, PyObject *self, UserValues &values,
             bool alike, Signature &signature, Flattened &found);

/// One value as a tree of its own.
struct FlatValue {
  std::vector<Node> nodes;
  std::vector<AtomRef> atoms;
  std::vector<PyObject *> tensors; ///< by slot; borrowed from the value and from `kept`
  std::vector<PyObject *> objects; ///< of each node but tensors its leaf, or its container's class
  std::vector<Owned> kept;
};
/// An argument raises if a later call could not be compared with it. A result's registered
/// containers keep what their class calls context as it is.
enum class Purpose : std::uint8_t { argument, result };
/// Objects from outside that a result holds. Each hit returns the one that it finds by the path.
struct ReachedObjects {
  enum class As : std::uint8_t {
    none,  ///< the body was not seen to reach the object
    whole, ///< it is not taken apart
    parts, ///< a container, taken apart as any other: an archive makes it again
  };
  std::function<As(PyObject *)> as;
  std::vector<PyObject *> objects;    ///< whole ones, numbered behind ResultObjects::given
  std::vector<PyObject *> containers; ///< in parts, numbered behind ResultObjects::containers
};
/// The containers, instances and arrays that the trees of one trace have, each with its first
/// place.
///
///     self.last = d; return d     tree 0, the result: 0 dict ...
///                                 tree 1, the store:  0 alias (kShared) of node 0 in tree 0
///
/// So a hit makes one object where the body made one, however many trees have it.
struct MadeObjects {
  struct Made {
    std::uint32_t tree, node; ///< where it was met first
    Py_ssize_t references;    ///< from all trees, and from what holds their roots
    bool counted;             ///< nothing else may refer to it
  };
  std::unordered_map<PyObject *, Made> found; ///< held by `held`: an address stays its own
  std::vector<Owned> held;
  std::uint32_t tree = 0; ///< the one that is described now

  /// A tree is described; undo(): it is none after all.
  void begin(std::uint32_t number) {
    tree = number;
    again_.clear();
  }
  void undo();
  void meet_again(PyObject *object, Made &made) {
    ++made.references;
    again_.push_back(object);
  }
  void add_references(PyObject *object, Py_ssize_t more);

private:
  std::vector<PyObject *> again_; ///< objects of any tree that the current one has once more
};
/// Whether something else than the trees refers to the object, so that no call can make it again.
inline bool is_held_elsewhere(PyObject *object, const MadeObjects::Made &one) {
  return one.counted && Py_REFCNT(object) != one.references + 1; // MadeObjects::held
}
/// What a result's objects are that are not simply taken apart.
struct ResultObjects {
  std::span<PyObject *const> given; ///< by their number: arguments, or what is in them
  /// Lists and dicts among the arguments. Each is taken apart as any other; its Node::reserved[1]
  /// is its number here, from 1 on. Those past the 255th have no number.
  std::span<PyObject *const> containers;
  ReachedObjects *reached = nullptr; ///< null: none
  MadeObjects &made;
  /// Whether the body has made a tensor and set attributes on it; empty: none has some.
  std::function<bool(PyObject *)> has_attributes;
};
/// `values`: null where objects of users' types are what they are. `objects`: of a result.
FlatValue flatten(PyObject *value, Purpose purpose, UserValues *values = nullptr,
                  ResultObjects *objects = nullptr);

/// Node::reserved[1] of a Kind::alias in a result. kGiven: an object from outside
/// (payload.alias.root). kShared: what was made for payload.alias.node of the tree
/// payload.alias.root, whose own reserved[2] is kShared.
inline constexpr std::uint8_t kGiven = 1;
inline constexpr std::uint8_t kShared = 2;

/// Throws the exception being handled; a SignatureError's message then starts with `subject`.
[[noreturn]] void rethrow_about(const std::string &subject);

/// What matches() collects; on the caller's stack, reused for each candidate.
struct Collected {
  c10::SmallVector<PyObject *, 64> tensors; ///< by slot
  c10::SmallVector<PyObject *, 8> roots;
  std::vector<Owned> kept; ///< what a user's code has made, or might let go of
  Owned failure;           ///< the first that a user's is_subtype_of raised in this call

  /// Before a user's code runs, which may let go of anything: holds what was found so far, and from
  /// now on what is found.
  void protect();
  bool is_careful() const { return careful_; }
  /// Takes the error that is set: keeps it where a relation of users' types raised it.
  void note_failure();
  void in_relation(bool yes) { in_relation_ = yes; }
  void clear();

private:
  std::size_t protected_tensors_ = 0, protected_roots_ = 0;
  bool careful_ = false, in_relation_ = false;
};

/// Hot. Whether the arguments have the Signature's tree; fills `found`. No allocation up to 64
/// tensors and 8 objects, no Python `__eq__` unless an equality leaf's pointer differs.
bool matches(const Signature &signature, const Binder &binder, const Bound &bound,
             Collected &found);

} // namespace tracehost::python
