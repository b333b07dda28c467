#pragma once

#include "region/region.h"

#include <array>

/// The ops of a region, cut into stages.
///
/// Arrays have one numbering in all stages: first the inputs, then the outputs, then the slots.
///
/// An op is in the first stage that has all its operands; a function's result is there one stage
/// later. A result that a later stage or a function reads is an array: its output, or a slot. The
/// slot is free again behind its last reader.

namespace tracehost::region {

struct PieceOperand {
  enum class From : std::uint8_t { array, number, op } from = From::number;
  int index = 0;    ///< of an array, of an op of the same piece
  double value = 0; ///< of a number
};

struct PieceOp {
  RegionCode code;
  /// Of a `where`: the comparison that decides, and its operands are the first two of four.
  RegionCode compare = RegionCode::lt;
  int operands_count = 0;
  std::array<PieceOperand, 4> operands = {};
  int store = -1; ///< the array that the result is written to
};

/// Straight-line code over arrays.
struct Piece {
  std::vector<PieceOp> ops;
};

struct FunctionCall {
  RegionCode function;
  int in, out; ///< arrays
};

struct RegionStage {
  Piece piece;
  std::vector<FunctionCall> calls; ///< behind the piece
};

struct RegionSchedule {
  std::vector<RegionStage> stages;
  std::vector<bool> is_one; ///< by array: one value for all
  int first_slot = 0, slots = 0;
  bool has_calls = false;
};

/// The number of operands of a code.
int operands_of(RegionCode code);
bool is_comparison(RegionCode code);
bool is_function(RegionCode code);

/// Why an op of a plan can't be in a region; empty: it can.
std::string find_op_fault(const RegionPlan &plan, std::size_t index);
/// Why a plan can't be a region; empty: it can.
std::string find_fault(const RegionPlan &plan);
/// Requires: find_fault() finds none.
RegionSchedule make_schedule(const RegionPlan &plan);

} // namespace tracehost::region
