#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <unordered_set>

namespace tracehost::trace {

/// The start of the graph: nodes that read the numbers of slots, and what is computed of those
/// alone where a check needs it.
///
/// A check may not follow an effect, as a call whose check fails must leave nothing behind. One
/// that follows from such numbers alone is moved here, before all effects.
///
///     loss.backward()                  %2 : int = aten::item(%n)            (head)
///     self.n += 1                      %3 : int = tracehost::py_add(%2, 1)  (moved to the head)
///     if self.n % 10 == 0:             %4 ... py_mod, py_eq, check_number   (moved to the head)
class Head {
public:
  explicit Head(torch::jit::Graph &graph) : graph_(graph) {}

  /// Nodes that are inserted while `insert` runs belong to the head.
  template <class Insert> auto add(Insert insert) {
    torch::jit::Node *const next = end_ ? end_->next() : *graph_.block()->nodes().begin();
    const torch::jit::WithInsertPoint at(next);
    auto result = insert();
    for (torch::jit::Node *node = end_ ? end_->next() : *graph_.block()->nodes().begin();
         node != next; node = node->next()) {
      nodes_.insert(node);
      end_ = node;
    }
    return result;
  }
  /// `insert` makes a check of `scalar`: both belong to the head. Requires: reaches(scalar).
  template <class Insert> auto check(torch::jit::Value *scalar, Insert insert) {
    take(scalar);
    return add(insert);
  }
  /// Whether `scalar` follows from nodes of the head, constants and ops on numbers alone.
  bool reaches(const torch::jit::Value *scalar) const;

private:
  /// Moves what `scalar` follows from here. Requires: reaches(scalar).
  void take(torch::jit::Value *scalar);

  torch::jit::Graph &graph_;
  torch::jit::Node *end_ = nullptr; ///< the last one; null: none
  std::unordered_set<const torch::jit::Node *> nodes_;
};

} // namespace tracehost::trace
