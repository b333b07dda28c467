#pragma once

#include "program/ops.h"
#include "program/program.h"
#include "program/undo.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Graphs of one signature that begin alike, cut in pieces.
///
/// Problem: a check fails after most of the graph has run, and the graph for the other value begins
/// with the same ops. Run from its start, a call would take twice as long. Answer: the graphs are
/// cut at the first check in which they differ. The pieces form a tree, and its root serves all.
///
///     graph 1: %y = f(%x)  check_number(%n, 1)  g(%y)        [f] - 1 - [g]
///     graph 2: %y = f(%x)  check_number(%n, 2)  h(%y)            \ 2 - [h]
///
/// Each Program has its own Chain, from the root to its leaf. A run of graph 1 that finds 2 ends in
/// a CheckFailed with a Begun: the values that any graph of the tree needs. The run of graph 2
/// continues from there. If no graph continues, the Begun restores what its run has saved (undo.h).
///
/// A start is not shared past a change that a front end's guards could see: written tensors from
/// outside, `.grad`, modes of the thread. Such graphs run from their start.

namespace tracehost {

/// Ops between two checks. Immutable; Programs that begin alike share it.
struct Piece {
  struct Taken {
    bool input;          ///< of the graph; else of an earlier piece
    std::uint32_t place; ///< among the tree's inputs (Chain::inputs), or in Begun::values
    bool last;           ///< no piece behind this one takes it
  };
  torch::jit::Code code; ///< takes `taken`; gives `given`, then the number of the check
  std::vector<Taken> taken;
  std::vector<std::uint32_t> given; ///< places in Begun::values
};

/// The pieces of one Program, the check behind each but the last.
struct Chain {
  struct Link {
    std::shared_ptr<const Piece> piece;
    Check check;
  };
  std::vector<Link> links;
  std::vector<std::int32_t> inputs; ///< of the tree: where the graph has each; -1: it has not
  std::size_t values = 0;           ///< in the tree

  /// Whether a run of this chain would have begun as `begun` has, and can continue from there.
  Program::Start start(const Begun &begun) const;
  /// Whether its start, called with `call`, would have read the tensors that `begun` has read.
  bool reads_as(const Begun &begun, const torch::jit::Stack &call) const;
  /// Consumes the inputs on `stack` and leaves the outputs. `begun`: continues from there, if
  /// start() is `same`; null: runs from the start. `undo`: of this run; null: the run saves
  /// nothing. Returns null, unless a check at the end of a piece has failed.
  std::shared_ptr<Begun> run(torch::jit::Stack &stack, Begun *begun, Undo *undo) const;
  /// Throws the CheckFailed of that check.
  [[noreturn]] void fail(std::shared_ptr<Begun> begun) const;
};

/// What a run has computed up to a check that failed.
struct Begun {
  struct Step {
    std::shared_ptr<const Piece> piece;
    c10::IValue number; ///< for the check behind it; the last step's check failed
  };
  std::vector<Step> steps;
  std::vector<c10::IValue> values; ///< of pieces, at their places
  torch::jit::Stack inputs;        ///< of the tree: those that were read, others None
  Saved saved;                     ///< restored in the end, unless a run takes it over
  bool grad = true;                ///< grad mode at the check

  Begun() = default;
  Begun(const Begun &) = delete;
  Begun &operator=(const Begun &) = delete;
  ~Begun() { saved.restore(); }
};

/// A graph that may begin as others do. `inputs`: as of Program::Named.
struct Beginning {
  const torch::jit::Graph *graph;
  std::vector<std::string> inputs;
};

/// Chains of graphs that begin alike, in the order of `graphs`; null for one that begins otherwise
/// than the last one does. Empty if all others do. `name`: of their Function.
std::vector<std::unique_ptr<Chain>> cut(std::vector<Beginning> graphs, const std::string &name);

} // namespace tracehost
