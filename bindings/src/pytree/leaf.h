#pragma once

#include "base/object.h"
#include "signature/node.h"

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

/// Python values as the core's Nodes and Atoms: one place that says how a leaf is compared.

namespace tracehost::python {

/// An Atom over a PyObject. `object` is compared first, by pointer.
class PyAtom : public Atom {
public:
  /// How the object is compared when the pointers differ.
  enum class Compare : std::uint8_t {
    identity, ///< held strongly: types, functions, dtypes, modules
    equality, ///< held strongly, type identity and `==`: str, bytes, int beyond 64 bits, complex
    weak_identity, ///< held weakly: instances; never equal again once the object is gone
    method,        ///< bound method: same instance (weak) and same function
    of_class,      ///< an instance held weakly: others of its class are as good (may_be_another())
    typed, ///< an instance of a class with `__tracehost_type__`: by what that gave (user_type.h)
  };
  PyAtom(PyObject *object, Compare compare);
  /// Compare::typed: what an instance of `of` gave.
  PyAtom(Owned type, PyTypeObject *of);
  ~PyAtom()
      override; ///< takes the GIL itself; after finalisation it lets go without touching Python

  bool same(const Atom &other) const override;
  std::string text() const override;
  bool alive() const override;
  bool is_ordered() const override;
  bool covers(const Atom &other) const override;

  /// For the garbage collector: the objects it holds strongly.
  virtual int traverse(visitproc visit, void *arg) const;

  /// What it was made from: a new reference, or null once that is gone.
  PyObject *object() const;

  /// Hot. Whether `candidate` stands for the same value. Requires: GIL held.
  bool holds(PyObject *candidate) const { return is(candidate) || holds_another(candidate); }
  /// Hot. Whether `object` is the same object, held strongly (Compare::identity and equality).
  bool is(PyObject *object) const { return object == object_ && compare_ <= Compare::equality; }
  Compare compare() const { return compare_; }
  /// Compare::typed: what the class said; borrowed. Null otherwise.
  PyObject *user_type() const { return compare_ == Compare::typed ? object_ : nullptr; }
  /// Whether holds() may run a user's code for a candidate that is another object.
  bool runs_code() const { return runs_code_; }

protected:
  PyObject *held() const { return object_; }

private:
  bool holds_another(PyObject *candidate) const;

  PyObject *object_; ///< strong, or the weak reference object (weak_identity, of_class, method)
  PyObject *function_ = nullptr; ///< method: the function; typed, of_class: the class; strong
  Compare compare_;
  bool runs_code_ = false;
};

/// The value that a leaf stands for, or the class of a container: a new reference. Null without an
/// error where it is not held: an object that is gone.
PyObject *python_value(const Node &node);

/// Whether it is a member of an enum class. Requires: GIL held.
bool is_enum_member(PyObject *object);

/// Turns a leaf into a Node without extent, and appends the atom that the Node needs to `atoms`.
/// Leaves are None, bool, int, float, str, bytes, complex, Ellipsis, torch.dtype, torch.device,
/// enum members, functions, classes and modules. Any other object is one by its equality or
/// identity. Tensors and containers are not leaves: they become an atom by weak identity here.
/// Never runs user code. Requires: GIL held. `by_equality`: what has an `==` of its own is compared
/// by it, hashable or not.
Node leaf(PyObject *object, std::vector<AtomRef> &atoms, bool by_equality = false);

/// Hot. Whether `object` is what the leaf `node` was made from. Pointers and scalars first; `==`
/// only for equality atoms of the same exact type. Requires: GIL held.
bool holds(const Node &node, PyObject *object);

} // namespace tracehost::python
