#pragma once

#include "signature/size_condition.h"
#include "trace/shadow.h"

#include <optional>
#include <unordered_set>
#include <vector>

namespace tracehost::trace {

/// A value computed from sizes, as an expression over the inputs' dynamic dimensions.
struct ReadSize {
  SizeExpression expression;
  LeafSet leaves = 0;               ///< the dynamic dimensions that occur in it
  std::vector<std::size_t> symbols; ///< whose leaves have to be equal for it to hold
};

/// Reads expressions off the graph. A size of an intermediate tensor is known by its values at all
/// points only: it is the one expression of the sizes that has these values. Searched are those
/// that the graph has computed so far, and sums and products of sizes times a number, plus one.
class SizeReader {
public:
  SizeReader(Shadow &shadow, const SizePoints &points) : shadow_(shadow), points_(points) {}

  /// Nullopt if the expression is not known; of a comparison: one that was recorded as an op.
  std::optional<ReadSize> read(torch::jit::Value *value);
  /// What has these values at the points; nullopt at points where it is not known.
  std::optional<ReadSize> identify(const std::vector<std::optional<std::int64_t>> &values,
                                   const torch::jit::Graph &graph);
  /// The value at each point.
  std::vector<std::optional<std::int64_t>> values(torch::jit::Value *value);

private:
  bool walk(torch::jit::Value *value, ReadSize &into);
  bool walk_size(torch::jit::Node *node, ReadSize &into);
  bool walk_operator(torch::jit::Node *node, SizeTerm::Op op, bool swapped, ReadSize &into);
  bool add_identified(torch::jit::Value *value, ReadSize &into);
  void add_leaf(std::size_t leaf, ReadSize &into) const;
  std::optional<ReadSize> computed(const std::vector<std::optional<std::int64_t>> &values,
                                   const torch::jit::Graph &graph);
  void require_equal(ReadSize &size) const;
  std::optional<ReadSize> combination(const std::vector<std::optional<std::int64_t>> &values) const;

  Shadow &shadow_;
  const SizePoints &points_;
  int depth_ = 0;
  std::unordered_set<const torch::jit::Node *> walked_; ///< by computed(), from the outermost on
};

} // namespace tracehost::trace
