#pragma once

#include "base/object.h"
#include "event/event.h"
#include "observe/paths.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::python {

/// Who stored to a slot, or to a container as a whole, while the body ran.
struct Storer {
  bool body = false;   ///< the body's own code
  bool called = false; ///< code that a node of the graph calls, at each run
  bool side = false;   ///< code in a side of an `if` that the graph checks
  Site where;          ///< the user's line of the body's first store
};

/// A store in a staged block that its variables do not cover.
struct BlockStore {
  int container = -1, slot = -1; ///< slot -1: elements were added to the container
  std::string path;
  Site where;
  Owned before, now; ///< of a slot; null: nothing
};

/// The stores that were seen, by slot and by container.
///
/// A branch or loop that is staged runs once at the trace, whether or not it is taken. Variables
/// that its own code assigns are set back behind it, and then joined. What else it has stored (in a
/// function that it calls, in a dict) is found by in_block(), and becomes a variable of the block.
///
/// Requires: GIL held.
class Stores {
public:
  explicit Stores(Paths &paths) : paths_(paths) {}

  /// A store comes. Slot -1: to the container as a whole.
  void note(Paths::Position at, bool called);
  /// The store that was noted last is in a side of an `if` that the graph checks.
  void note_in_side(Paths::Position at);
  /// An attribute of a tensor is stored, by the body's own code.
  void note_tensor() { ++of_tensors_; }
  std::size_t of_tensors() const { return of_tensors_; }
  /// C code that is not known got the container, and those in it, and may store to them.
  void note_unknown(int container);

  /// Code that the graph calls reads an attribute or variable of this name, or, if null, an
  /// element. The graph stores to slots behind all calls, so what the body stored before is not
  /// there yet.
  void read_by_call(PyObject *name);
  /// Whether the body had stored to such a slot.
  bool is_read_by_call(PyObject *key, Place place) const;

  /// How many stores to slots were noted.
  std::size_t noted() const { return slots_.size(); }
  /// The stores since then are in a block that the graph has: not each call does them.
  void join(std::size_t noted);
  /// How many slots and containers were seen.
  std::size_t count() const { return in_order_.size(); }
  /// Those seen since then were stored to by a side of an `if` that is left out of the graph.
  void leave_out(std::size_t count);

  /// Who stored to the slot, or else to its container.
  Storer of(int container, int slot) const;

  /// Before a staged block runs: what in_block() and end_block() get.
  std::size_t begin_block() { return begin_ = in_blocks_.size(); }
  /// Slots and containers that hold something else than before the block, each once.
  std::vector<BlockStore> in_block(std::size_t begin) const;
  /// After the block. `restore`: each slot, and each list, gets what it held before.
  void end_block(std::size_t begin, bool restore);
  /// What the slot of `store` holds behind the block.
  void store(const BlockStore &store, PyObject *value);

private:
  struct InBlock {
    int container, slot;
    Owned before; ///< null: nothing was there. Slot -1: a copy of the container
    Site where;
  };

  void note_in_block(Paths::Position at);
  bool is_as_before(const InBlock &store) const;
  void restore(const InBlock &store);

  std::vector<InBlock> in_blocks_;
  std::size_t of_tensors_ = 0;
  std::size_t begin_ = 0; ///< of the innermost block that has begun last

  Paths &paths_;
  Storer &seen(int container, int slot);
  std::unordered_map<std::uint64_t, Storer> seen_;
  std::vector<std::uint64_t> in_order_; ///< its keys
  std::vector<Paths::Position> slots_;  ///< of all stores, one after another
  /// Names of slots that the body has stored to, and those that calls then read; null: elements.
  std::unordered_set<PyObject *> stored_, stale_;
};

} // namespace tracehost::python
