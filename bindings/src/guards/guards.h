#pragma once

#include "base/object.h"
#include "event/event.h"
#include "program/output_spec.h"
#include "signature/signature.h"

#include <ATen/core/stack.h>
#include <Python.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// An object that paths may start from: `self`, an argument that is no tensor, list ... : its name
/// as a user writes it, and its place among the bound arguments.
struct Root {
  std::string name;
  PyObject *object = nullptr; ///< borrowed
  int argument = -1;  ///< index into the bound arguments; -1: belongs to the function itself
  bool typed = false; ///< its class says what it is compared by: only tensors in it are read again
  bool alike = false; ///< another of its class may come in its place
  bool instance = false; ///< a method's, compared by identity for any class
};

/// A slot that the body rebound to a tensor, to a container of tensors (`self.h = h * 0.5 + x`), to
/// None or a number, or emptied:
/// hidden outputs of the graph, which every run stores again.
struct Rebinding {
  std::int32_t container = -1; ///< in the Graph of the Guards
  Owned key;                   ///< as Slot's, and so is `index`
  std::int32_t index = -1;
  bool empties = false; ///< nothing is there afterwards
  bool appends = false; ///< to the end of a list
  OutputSpec value;     ///< its slots are places among all outputs of the graph
};

/// What one Specialization depends on beyond its arguments: guarded slots and captures, each with
/// the path to read it again. Made by Recorder, owned by the Specialization.
///
/// Fast path: a guarded container (instance dict, globals, class dict, a module's _parameters ...)
/// is unchanged while its dict version tag is. Then every slot in it holds the same object as last
/// time. The container keeps that object alive, so captures are borrowed pointers. Containers are
/// checked parents first. Only where a tag moved are the names of that container looked up again.
/// Lists, cells and __slots__ have no tag: their few pointers are compared each time.
///
/// Holds no strong reference to an argument, nor to what is reached through one. Class, function
/// and module objects, cells and globals dicts may be held strongly as the function itself holds
/// them; a captured tensor without a path is held.
///
/// Requires for every member: GIL held.
class Guards {
public:
  virtual ~Guards() = default;

  /// Hot: no allocation while nothing changed, no exception, no Python `__eq__` unless a guarded
  /// value's pointer differs. `arguments`: the bound arguments, as the roots were given.
  /// True if each guarded slot holds what the trace read. A capture rebound to another tensor is
  /// still true here: its metadata is compared by the caller (captures()).
  virtual bool verify(PyObject *const *arguments) = 0;

  /// The tensor objects to append as hidden inputs, in graph order; borrowed, valid until the next
  /// Python code runs. Requires: verify() just returned true.
  virtual std::span<PyObject *const> captures() const = 0;

  /// What each run of the graph stores to slots again; in the order of the stores.
  virtual std::span<const Rebinding> rebindings() const = 0;
  /// What holds those slots: to ask before the run, which may run other code. `arguments`: reads
  /// the paths again, null where one is broken; without: verify() just returned true.
  virtual std::vector<Owned> holders(PyObject *const *arguments) const = 0;
  /// Objects from outside that the result holds, in the order of Recorder::finish's `handed_out`:
  /// to ask before the run, too. `arguments`: as for holders().
  virtual std::vector<Owned> handed_out(PyObject *const *arguments) const = 0;
  virtual std::size_t hands_out() const = 0; ///< how many these are
  /// After the run. False with an error set.
  virtual bool store(const std::vector<Owned> &holders, torch::jit::Stack &outputs) const = 0;

  /// Each guarded slot with what it held before the trace, for the Signature; atoms are appended.
  virtual std::vector<GuardedSlot> recorded(std::vector<AtomRef> &atoms) const = 0;
  /// The same slots, as they are now (absent where the path is broken). For differences only: slow.
  virtual std::vector<GuardedSlot> current(PyObject *const *arguments,
                                           std::vector<AtomRef> &atoms) = 0;
  /// Paths to what may change unseen, with its class: objects of libraries that are compared by
  /// identity alone (`ROWS (net.py): list_iterator`), and what is too long to be guarded whole.
  virtual std::vector<std::string> unguarded() const = 0;
  /// For the garbage collector: each strong reference once. `seen`: the atoms visited already,
  /// which a Specialization's parts share.
  virtual int traverse(visitproc visit, void *arg,
                       std::unordered_set<const Atom *> &seen) const = 0;
  /// The captures' tensors as they are now, null where the path is broken. For differences only.
  virtual std::vector<PyObject *> current_captures(PyObject *const *arguments) = 0;
};

/// Visits those of `atoms` that are PyAtoms and not in `seen`, and adds them.
int traverse(const std::vector<AtomRef> &atoms, visitproc visit, void *arg,
             std::unordered_set<const Atom *> &seen);

} // namespace tracehost::python
