#pragma once

#include "trace/shadow.h"
#include "trace/size_points.h"
#include "trace/size_reader.h"
#include "trace/tracer.h"

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tracehost::trace {

/// What a trace with dynamic dimensions does beside the trace itself. It separates traced sizes
/// from exact ones, and turns the body's reads of a traced size into conditions and specialized
/// dimensions.
class DynamicSizes {
public:
  /// `reject` throws for a read whose dimension may not be specialized.
  DynamicSizes(const std::vector<at::Tensor> &slots, const DynamicDimensions &dynamic,
               Frontend &frontend, Traced &result, std::function<void(const std::string &)> reject);

  /// The body has met a tensor that is no slot; `input`: its place among the graph's inputs.
  void captured(const at::Tensor &t, std::size_t input);
  /// Before an op of the body: reads of an index that no op took since are the body's own.
  void settle();
  /// After one, with its results.
  void after(const std::vector<at::Tensor> &results);

  /// A new traced size (0-dim int64), or nullopt where the size is exact.
  std::optional<at::Tensor> size(const at::Tensor &t, std::int64_t dimension);
  std::optional<at::Tensor> numel(const at::Tensor &t);

  /// Whether the body gets numbers that the graph reads for how `t` lies in memory.
  bool lies_by_sizes(const at::Tensor &t, Layout read);

  bool is_size(const at::Tensor &t);
  /// The value of a size; what it depends on becomes exact.
  std::int64_t specialize(const at::Tensor &size, const std::string &why);
  /// The value as `__index__` or an op's argument takes it: fine if the op records it.
  std::int64_t index(const at::Tensor &size);
  /// The truth of a comparison of sizes, which becomes a condition.
  bool truth(const at::Tensor &comparison);
  /// Specializes the dimensions that `t`'s strides or offset depend on.
  void read_strides(const at::Tensor &t);
  void read_contiguity(const at::Tensor &t);
  /// chunk: how many there are depends on the size.
  void split(const at::Tensor &t, std::int64_t dimension, std::int64_t chunks);
  /// split, just recorded: how many there are depends on `size` of the parts, if it is traced.
  void split_by(torch::jit::Value *size);

  /// The node, or the value, is about to be destroyed.
  void forget(torch::jit::Node *node);
  void forget(torch::jit::Value *value);

  /// After the body.
  void finish();

  /// The traced sizes that the body has got, by their values.
  std::unordered_map<torch::jit::Value *, at::Tensor> given;

private:
  struct IndexRead {
    torch::jit::Value *value;
    Site where;
  };
  torch::jit::Graph &graph() const;
  torch::jit::Value *value_of(const at::Tensor &t) const;
  bool is_size(torch::jit::Value *value);
  at::Tensor record(torch::jit::Node *node, std::int64_t actual);
  bool take_stashed(torch::jit::Value *value);

  void advance();
  void solve(const Shadow::Trouble &trouble);
  bool holds_with(const std::vector<std::size_t> &symbols, int attempt, torch::jit::Node *node);
  bool holds_without(const std::vector<std::size_t> &symbols, torch::jit::Node *node);
  bool passes(torch::jit::Node *node);
  void collect();
  void advance_for_strides();
  bool stay_within_bounds(torch::jit::Value *value);
  void settle_kind(torch::jit::Node *node);

  void specialize_leaves(LeafSet leaves, const std::string &why, const Site &where);
  void specialize_value(torch::jit::Value *value, const std::string &why, const Site &where);
  LeafSet leaves_of(torch::jit::Value *value);
  void add(SizeExpression expression, bool expected);
  void add(const std::vector<Size::Need> &needs);
  bool holds_at(const ReadSize &read, std::optional<std::int64_t> expected,
                std::size_t point) const;
  bool is_exact(const Size &size, std::int64_t actual);
  torch::jit::Value *sized_value(const at::Tensor &t);
  void require_equal(std::size_t symbol);
  void note(const std::string &text);
  std::string name(const SizePoints::Leaf &leaf) const;

  const DynamicDimensions &dynamic_;
  const std::size_t slots_;
  Frontend &frontend_;
  Traced &result_;
  std::function<void(const std::string &)> reject_;
  SizePoints points_;
  Shadow shadow_;
  SizeReader reader_;
  std::vector<IndexRead> index_reads_;
  std::set<torch::jit::Node *> stashed_; ///< nodes of the argument stash that a read belongs to
  std::set<std::string> noted_;
  /// Nodes whose results have the rank and number of the trace wherever the conditions hold.
  std::unordered_set<torch::jit::Node *> proved_;
};

} // namespace tracehost::trace
