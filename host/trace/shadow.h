#pragma once

#include "trace/node_runner.h"
#include "trace/size_points.h"

#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

/// Runs the ops of a trace beside it, on tensors without data, at other sizes.
///
/// Problem: which sizes of a result follow from the signature, and which would differ at a later
/// call? Would an op fail there, or give another number of dimensions? Answer: each node of the
/// growing graph is run on fake tensors too, at all SizePoints.
///
///     x[8, 5], 8 dynamic          real     near     far      large     ones
///     y = cat([x, x]).sum(1)      [16]     [22]     [12]     [2012]    [2]      a traced size
///     z = y.view(2, -1)           [2, 8]   [2, 11]  [2, 6]   [2, 1006] [2, 1]   2 is an int

namespace tracehost::trace {

class Shadow {
public:
  /// What a Value would be at each point.
  struct Entry {
    std::vector<c10::IValue> at; ///< by point
    std::uint32_t known = 0;     ///< a bit a point
    LeafSet leaves = 0;          ///< what it may depend on

    bool has(std::size_t point) const { return known >> point & 1; }
    /// At every point where an op must hold.
    bool sure() const {
      return (known & ((1U << SizePoints::kMust) - 1)) == (1U << SizePoints::kMust) - 1;
    }
  };
  /// A node that does not fit at a point.
  struct Trouble {
    torch::jit::Node *node = nullptr;
    std::size_t point = 0;
    std::string message;
    LeafSet leaves = 0;
    bool in_kind = false; ///< it runs, but gives another number of dimensions or items
  };
  /// `input`: the tensor of a graph input, slot or capture.
  Shadow(SizePoints &points, std::function<at::Tensor(std::size_t)> input)
      : points_(points), input_(std::move(input)) {}

  /// Runs what was recorded since; stops at the first node that fails where it must hold.
  std::optional<Trouble> advance(torch::jit::Graph &graph);
  /// The entry of a value that advance() has passed, or of a pure node inserted before that point.
  const Entry &of(torch::jit::Value *value);
  /// Forgets all: the points have changed.
  void restart();
  /// The node's results count as not known from now on.
  void give_up(torch::jit::Node *node);
  /// The node, or the value, is about to be destroyed.
  void forget(torch::jit::Node *node);
  void forget(torch::jit::Value *value) { entries_.erase(value); }

  /// What differs in kind, not size, at points that need not hold; read and cleared by the owner.
  std::vector<Trouble> differences;
  /// Nodes that sizes of 1 take dimensions from, or that give as many results as a size says; read
  /// and cleared by the owner.
  std::vector<torch::jit::Node *> of_kind;
  /// Of the numbers that ops were given: where the strides of results may begin to differ.
  std::int64_t largest_number = 0;
  /// Nodes that could not be run, with why; read and cleared by the owner. Each comes once.
  std::vector<Trouble> unknown;

private:
  std::optional<Trouble> run(torch::jit::Node *node);
  void note_number(const torch::jit::Node *node);
  Entry input(torch::jit::Value *value);
  void not_known(torch::jit::Node *node, LeafSet leaves);
  std::optional<Trouble> compare(torch::jit::Node *node, std::vector<Entry> &outputs);
  LeafSet size_leaf(torch::jit::Node *node, LeafSet otherwise) const;

  SizePoints &points_;
  std::function<at::Tensor(std::size_t)> input_;
  std::unordered_map<torch::jit::Value *, Entry> entries_;
  std::unordered_set<torch::jit::Node *> given_up_, reported_;
  torch::jit::Node *last_ = nullptr;
};

} // namespace tracehost::trace
