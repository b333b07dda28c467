#pragma once

#include "signature/size_condition.h"
#include "trace/size_rules.h"

#include <optional>
#include <vector>

namespace tracehost::trace {

/// A value computed from sizes, as an expression over the inputs' dynamic dimensions.
struct ReadSize {
  SizeExpression expression;
  LeafSet leaves = 0;            ///< the dynamic dimensions that occur in it, or in what it needs
  std::vector<Size::Need> needs; ///< conditions that it holds under
};

/// Reads expressions off the graph: arithmetic and comparisons as the body has written them, over
/// sizes of inputs, and over sizes of results by the rules.
class SizeReader {
public:
  SizeReader(Shadow &shadow, const SizePoints &points, std::function<at::Tensor(std::size_t)> input)
      : shadow_(shadow), points_(points),
        rules_(shadow, points, std::move(input),
               [this](torch::jit::Value *value) { return size(value); }) {}

  /// Nullopt if the expression is not known; of a comparison: one that was recorded as an op.
  std::optional<ReadSize> read(torch::jit::Value *value);
  ReadSize read(const Size &size) const;
  /// An int as a Size; not known if read() gives none.
  Size size(torch::jit::Value *value);
  /// The value at each point.
  std::vector<std::optional<std::int64_t>> values(torch::jit::Value *value);
  SizeRules &rules() { return rules_; }

private:
  bool walk(torch::jit::Value *value, ReadSize &into, int depth);
  bool walk_size(torch::jit::Node *node, ReadSize &into);
  bool walk_operator(torch::jit::Node *node, SizeTerm::Op op, bool swapped, ReadSize &into,
                     int depth);
  bool walk_power(torch::jit::Node *node, ReadSize &into, int depth);
  void append(ReadSize &into, const Size &size) const;
  LeafSet leaves_in(const SizeExpression &expression) const;

  Shadow &shadow_;
  const SizePoints &points_;
  SizeRules rules_;
};

} // namespace tracehost::trace
