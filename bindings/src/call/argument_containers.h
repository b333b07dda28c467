#pragma once

#include "base/object.h"
#include "program/output_spec.h"
#include "pytree/binder.h"

#include <ATen/core/stack.h>
#include <Python.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// Lists and dicts among a call's arguments: bodies change them, and return them.
///
/// Problem: a Signature takes them apart, so that a hit knows their leaves alone. Answer: a trace
/// finds them by their paths before the body runs, and compares them behind it. A hit does the same
/// to those of its own call.
///
///     def f(batch):                    path: argument 0; the new value of "z" is an output
///         batch["z"] = batch["x"] * 2
///         return batch                 the object at that path
///
/// Requires for all: GIL held.

/// Where one is: an argument by its place, then keys and indices.
struct ContainerPath {
  std::size_t argument = 0; ///< of the fixed parameters, then of *args
  std::vector<Owned> steps; ///< an int into a list or tuple, a key of a dict
  std::vector<bool> keyed;  ///< whether the step is a key
};
ContainerPath copy(const ContainerPath &path);
/// Whether both are one path. Requires: of one trace.
bool is_at(const ContainerPath &path, const ContainerPath &other);
/// Gives the container this content, a list or dict. False with a Python error set.
bool restore(PyObject *container, PyObject *content);
/// The object there, borrowed; null where there is none.
PyObject *find(const ContainerPath &path, const Bound &bound, std::size_t fixed);

/// What later calls do to one, too.
struct ContainerChange {
  ContainerPath path;
  Py_ssize_t size = 0; ///< before
  /// Of each element afterwards: where it was in a list before, or -1 for the next of `values`.
  std::vector<int> from;
  std::vector<Owned> keys;    ///< of a dict: those that get the next of `values`
  std::vector<Owned> deleted; ///< of a dict
  std::uint32_t values = 0;   ///< a tuple: the tree (RunValues)
};
/// Requires: `container` is a list or dict as the trace's was. False with a Python error set: also
/// where it is not as the trace's was before.
bool apply(const ContainerChange &change, PyObject *container, PyObject *values);

/// What a Specialization does to its calls' containers, and which of them its result holds.
struct ContainerUses {
  /// Takes the GIL; once Python has ended, the objects are leaked.
  struct Delete {
    void operator()(ContainerUses *uses) const;
  };
  std::vector<ContainerChange> changes;
  std::vector<ContainerPath> given; ///< those in the result: numbered behind the roots
};
using OwnedContainerUses = std::unique_ptr<ContainerUses, ContainerUses::Delete>;

/// Those of one call, at its trace.
class ArgumentContainers {
public:
  ArgumentContainers(const Bound &bound, std::size_t fixed);

  struct Container {
    ContainerPath path;
    Owned object, before; ///< a shallow copy
    Owned after;          ///< once it was found to be another
  };
  /// By their order in the arguments.
  std::vector<Container> &all() { return all_; }
  std::vector<PyObject *> objects() const;
  /// Notes what the body has changed, and whether it has changed any.
  bool compare();
  /// All contents that have changed as they were before the body, or after it.
  void put(Owned Container::*content) const;
  /// The change, with its new values: a tuple, a new reference. Nullopt where a later call could
  /// not do the same. The reasons: a key that is no constant; an order of keys that no store makes.
  std::optional<std::pair<ContainerChange, Owned>> change(Container &container) const;

private:
  void add(PyObject *value, ContainerPath path, std::size_t depth);

  std::vector<Container> all_;
  std::unordered_set<PyObject *> known_;
};

} // namespace tracehost::python
