#pragma once

#include "region/pieces.h"

/// The registers of a piece.
///
/// A group is one register for each vector that the code takes at a time. Values get groups in one
/// pass over the ops: an array is loaded where an op first reads it, and a group is free behind the
/// last reader. Without a free group the value that is read last of all loses its group: an array
/// is loaded again later, a result is spilled to the stack and reloaded.

namespace tracehost::region {

struct RegisterMove {
  enum class What : std::uint8_t { load, store, spill, reload, compute } what;
  int group;
  int index; ///< of an array, of a place on the stack, of an op
  /// Of `compute`: for each operand its group; -1: a number.
  std::array<int, 4> sources = {-1, -1, -1, -1};
};

struct RegisterPlan {
  std::vector<RegisterMove> moves;
  int groups = 0; ///< in use
  int places = 0; ///< on the stack, a group each
  int losses = 0; ///< how often a value that is read later lost its group
};

/// The groups that the op with the most operands needs.
int groups_needed(const Piece &piece);
/// Requires: groups >= groups_needed().
RegisterPlan plan_registers(const Piece &piece, int groups);

} // namespace tracehost::region
