#pragma once

#include "guards/paths.h"

#include <cstdint>
#include <unordered_map>

namespace tracehost::python {

/// Who stored to a slot, or to a container as a whole, while the body ran.
struct Storer {
  bool body = false;   ///< the body's own code
  bool called = false; ///< code that a node of the graph calls, at each run
  Site where;          ///< the user's line of the body's first store
};

/// The stores that were seen, by slot and by container. Requires: GIL held.
class Stores {
public:
  explicit Stores(Paths &paths) : paths_(paths) {}

  /// A store comes. Slot -1: to the container as a whole.
  void note(Paths::Position at, bool called);
  /// C code that is not known got the container, and those in it, and may store to them.
  void note_unknown(int container);

  /// Of the slot; else of its container.
  Storer of(int container, int slot) const;

private:
  static std::uint64_t key(int container, int slot);

  Paths &paths_;
  std::unordered_map<std::uint64_t, Storer> seen_;
};

} // namespace tracehost::python
