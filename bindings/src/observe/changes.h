#pragma once

#include "base/object.h"
#include "event/event.h"
#include "guards/graph.h"

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// A Python value rebound by the body during the trace: it changes at the trace only.
struct SideEffect {
  std::string path; ///< `self.count`
  Site where;       ///< the line that stores it, when it is known
};

/// A slot that the body emptied, or rebound to a tensor, None, a number or a string. A list, tuple
/// or dict of such counts as one.
struct Rebound {
  std::string path;       ///< `self.h`
  Site where;             ///< as SideEffect's
  PyObject *value;        ///< what it holds now; borrowed from the Recorder. Null: nothing
  bool rewrites = false;  ///< `value` is a tuple of the new elements of a list or deque
  bool repeated = false;  ///< later calls can store the like
  std::uint32_t tree = 0; ///< repeated: what they store (RunValues); 0: nothing
};

/// A slot that holds another thing than before the body ran, or an element of a container that was
/// added or removed.
struct Change {
  int container = -1;
  int slot = -1;           ///< -1: what was added had no slot, or something was removed
  Owned key;               ///< of an attribute, name or entry; null: of a list or set, or removed
  Owned now;               ///< null: nothing is there any more
  bool has_tensor = false; ///< `now` is a tensor, or leads to one by elements and attributes
  bool has_number = false; ///< the same of a number of the graph
  bool appended = false;   ///< to a list or deque, the elements of which are still where they were
  bool same = false;       ///< the body has stored what was there before
  Py_ssize_t place = -1;   ///< appended: where it is
  bool moved = false;      ///< of a dict: behind entries that it was before
  bool rewrites = false;   ///< a list or deque lost elements, or they moved; `now`: all of them
  std::vector<int> from;   ///< rewrites: as Rebinding's; the new elements are `added`
  Owned added;             ///< a tuple
  int rebound = -1;        ///< index among what later calls store again: Recorder::rebound()
};

/// Compares what was recorded with what is there now. Runs no user code but the `==` of
/// keys.
/// `given`: tensors among the arguments.
/// `stores`: a slot to which the body has stored what it held before counts as changed: a hit may
/// find another value there.
std::vector<Change> changes_of(const Graph &graph, const std::unordered_set<PyObject *> &given,
                               bool stores);
/// `self.h`; of what was added to a list, or removed, the container's.
std::string path_of(const Change &change, const Graph &graph);

/// The value that it stores, and what that leads to by elements and attributes. No elements that
/// only move.
void visit_stored(const Change &change, const std::function<void(PyObject *)> &visit);

/// Whether it stores a fake tensor: by elements and attributes, or as a result that
/// functools.lru_cache keeps.
bool stores_fake_tensor(const Change &change, const Graph &graph);

/// The object in whose slot or elements it is.
PyObject *owner_of(const Change &change, const Graph &graph);
/// Puts `value` (null: nothing) in the place of the change. No error is left set.
void store(const Change &change, const Graph &graph, PyObject *value);
/// Restores what was there before, as far as slots have it.
void restore(const Change &change, const Graph &graph);
/// The same for a change that stores a fake tensor. A set keeps all other elements that it got.
void take_back_fake_tensors(const Change &change, const Graph &graph);

/// The attribute by which torch.optim notes that it has checked its parameters once.
bool is_check_of_optimizer(PyObject *name);

/// Whether a value is a tensor that an eager region made, or leads to one by elements and
/// attributes.
bool is_made_eagerly(PyObject *value);

} // namespace tracehost::python
