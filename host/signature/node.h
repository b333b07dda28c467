#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

namespace tracehost {

/// A value of the front end that the core compares but does not understand: a Python type, string,
/// function or object. Immutable; shared by the Signatures that mention it.
class Atom {
public:
  virtual ~Atom() = default;

  /// Whether the two stand for the same value. May run a user's `__eq__`: never call it under a
  /// lock.
  virtual bool same(const Atom &other) const = 0;
  /// As a user would write it, at most about 60 characters: `'relu'`, `<function act at
  /// net.py:12>`.
  virtual std::string text() const = 0;
  /// For a container's type: how child `index` is reached, `.weight` for a dataclass; else empty.
  virtual std::string field(std::size_t /*index*/) const { return {}; }
  /// For a custom container's type: how what its class calls context is reached.
  virtual std::string context() const { return ".<context>"; }
  /// False once the object it refers to weakly is gone: its Signature can never match again.
  virtual bool alive() const { return true; }
  /// Whether it is one of types that are above each other: covers() then says more than same().
  virtual bool is_ordered() const { return false; }
  /// Whether what was traced for it takes what `other` stands for, too. As same(), may run user
  /// code.
  virtual bool covers(const Atom &other) const { return same(other); }
};
using AtomRef = std::shared_ptr<const Atom>;

/// What a Node is. Containers (from `tuple` on) are followed by their children.
enum class Kind : std::uint8_t {
  tensor,   ///< payload.slot: index of a distinct tensor
  none,     ///< None
  boolean,  ///< payload.integer: 0 or 1
  integer,  ///< payload.integer
  real,     ///< payload.real, compared by bits; NaN is stored as one canonical NaN
  ellipsis, ///< ...
  device,   ///< payload.integer: type << 8 | (index + 1)
  atom,     ///< payload.atom: strings, big ints, complex, dtypes, functions, objects
  absent,   ///< an attribute, cell or key that holds nothing
  alias,    ///< the same object as an earlier leaf: payload.alias
  tuple,    ///< payload.atom: the exact type; children are the items
  list,     ///< as tuple
  dict,     ///< as tuple; children alternate key, value, in insertion order
  record,   ///< dataclass ...: payload.atom: the exact type; children are the fields in order
  custom,  ///< taken apart by a user's function: as tuple; the first child is what it calls context
  further, ///< last child of a container: what it has besides; children alternate name, value
};

/// One element of a Signature's flat tree, in depth-first order.
///
///     f((x, 2), k={"a": x})   ->   0 tuple end 3 | 1 tensor slot 0 | 2 integer 2
///                                  3 dict end 6  | 4 atom 'a'      | 5 tensor slot 0
///
/// The subtree's end lets a walker skip in O(1) and makes `f([a], [b])` differ from `f([a, [b]])`.
struct Node {
  Kind kind = Kind::none;
  std::uint8_t reserved[3] = {};
  std::uint32_t end = 0; ///< index one past the last node of the subtree; own index + 1 for a leaf
  union Payload {
    std::int64_t integer;
    double real;
    std::uint32_t slot;
    struct {
      std::uint32_t node; ///< the earlier leaf's
      std::uint32_t root; ///< its number, for the front end
    } alias;
    const Atom *atom; ///< owned by Signature::atoms
  } payload{.integer = 0};

  bool is_container() const { return kind >= Kind::tuple; }
  bool has_atom() const { return kind == Kind::atom || (is_container() && kind != Kind::further); }
};
static_assert(sizeof(Node) == 16 && std::is_trivially_copyable_v<Node>);

} // namespace tracehost
