#pragma once

#include "environment/code.h"
#include "environment/gil.h"
#include "environment/graph.h"
#include "environment/walker.h"

#include <string>
#include <vector>

namespace tracehost::python {

/// A slot that holds another thing than before the body ran, or an element of a container that was
/// added or removed.
struct Change {
  int container = -1;
  int slot = -1;           ///< -1: what was added had no slot, or something was removed
  Owned key;               ///< of an attribute, name or entry; null: of a list or set, or removed
  Owned now;               ///< null: nothing is there any more
  bool has_tensor = false; ///< `now` is a tensor, or a list, tuple or dict with one in it
  int rebound = -1;        ///< index among what later calls store again: Recorder::rebound()
};

/// The code that ran during a trace.
struct Ran {
  std::span<PyCodeObject *const> body;
  std::span<PyCodeObject *const> called; ///< by nodes of the graph, so that it runs again
  bool calls; ///< there are such nodes; what they call may have no Python code
};

/// Which of that code can have made a Change.
struct Storer {
  bool body = false;
  bool called = false;
  Site where; ///< of the store in the body, when it can be told
};

/// Compares what the Walker recorded with what is there now. Runs no user code but the `==` of
/// keys.
std::vector<Change> changes_of(const Walker &walker);
Storer storer_of(const Change &change, const Graph &graph, const Ran &ran);
/// `self.h`; of what was added to a list, or removed, the container's.
std::string path_of(const Change &change, const Graph &graph);

/// Whether a value is, or leads to by elements and attributes, a tensor that a lifted block made.
bool is_lifted(PyObject *value);

} // namespace tracehost::python
