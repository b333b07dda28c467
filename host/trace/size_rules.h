#pragma once

#include "trace/shadow.h"
#include "trace/size.h"

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/ir/ir.h>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

/// The sizes of what ops give, as functions of the inputs' sizes.
///
/// Problem: the body asks for a size of a result. Is it the same at each call? If not, what is it
/// of the inputs' sizes? Answer: a rule for each op, by its name, from the sizes of its arguments
/// to the sizes of its results. The rules run when a size is asked for, from the inputs on, once
/// for each node that the tensor is computed from. An op without a rule has known sizes only if all
/// that it takes has constant sizes.
///
///     x[n, 4]                      inputs and captures: as the signature has them
///     y = x[-8:] * x.new_ones(4)   slice: min(n, 8), 4    new_ones: 4    mul: min(n, 8), 4
///     z = y.reshape(2, -1)         2, 2 * min(n, 8)

namespace tracehost::trace {

using Dims = std::vector<Size>;
using Parts = std::vector<Dims>; ///< of several results, or of a list

/// A rule does not know the sizes.
class NoRule final : public std::exception {};

inline void erase_dim(Dims &dims, std::size_t d) {
  dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(d));
}
inline void insert_dim(Dims &dims, std::size_t d, Size size) {
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(d), std::move(size));
}
inline Size product_of(const Dims &dims) {
  Size result(1);
  for (const Size &size : dims)
    result = result * size;
  return result;
}
inline bool is_tensor(const torch::jit::Value *value) {
  return value->type()->isSubtypeOf(*c10::TensorType::get());
}

class SizeRules;

/// The arguments of a node, by their names in the op's schema. All but has() raise NoRule for what
/// is not known.
class SizeCall {
public:
  SizeCall(const torch::jit::Node &node, const c10::FunctionSchema &schema, SizeRules &rules)
      : node_(node), schema_(schema), rules_(rules) {}

  /// Whether it is an argument of the op and not None.
  bool has(std::string_view name) const;
  const Dims &dims(std::string_view name) const;
  /// Of each tensor of a list. `null`: what stands for None.
  Parts tensors(std::string_view name) const;
  Size number(std::string_view name) const;
  Dims numbers(std::string_view name) const;
  std::int64_t constant(std::string_view name) const;
  double real(std::string_view name) const;
  std::vector<std::int64_t> constants(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::string text(std::string_view name) const;
  bool flag(std::string_view name) const { return has(name) && constant(name) != 0; }
  bool is_list(std::string_view name) const;
  bool is_text(std::string_view name) const;
  bool is_tensor(std::string_view name) const;
  /// A dimension of a tensor of `rank`, from 0 on.
  std::size_t dimension(std::string_view name, std::size_t rank) const;
  std::vector<std::size_t> dimensions(std::string_view name, std::size_t rank) const;
  /// The first tensor among the arguments.
  const Dims &first() const;
  /// The sizes of all tensors among the arguments.
  Parts all() const;
  /// The values of a list, and whether one of them selects by a mask.
  std::vector<torch::jit::Value *> elements(std::string_view name) const;
  const Dims &dims(torch::jit::Value *tensor) const;
  bool is_mask(torch::jit::Value *tensor) const;
  /// How many tensors are in the list that the op gave at the trace.
  std::size_t items() const;
  /// The size as it was at the trace.
  std::int64_t at_trace(const Size &size) const;
  /// `a` and `b` are broadcast: the result's size, with what it needs.
  Size broadcast(const Size &a, const Size &b) const;
  Dims broadcast(const Dims &a, const Dims &b) const;

private:
  torch::jit::Value *argument(std::string_view name) const;
  torch::jit::Value *required(std::string_view name) const;

  const torch::jit::Node &node_;
  const c10::FunctionSchema &schema_;
  SizeRules &rules_;
};

using SizeRule = Parts (*)(const SizeCall &call);

// Rules that several tables have.
Parts sizes_of_first(const SizeCall &call);  ///< of the first tensor
Parts sizes_broadcast(const SizeCall &call); ///< of all tensors, broadcast
Parts sizes_given(const SizeCall &call);     ///< the argument `size`
Parts sizes_of_number(const SizeCall &call); ///< no dimension

struct NamedSizeRule {
  std::string_view ops; ///< without `aten::`, with a space between two
  SizeRule rule;
};
extern const std::vector<NamedSizeRule> kElementSizes, kReductionSizes, kFactorySizes, kViewSizes,
    kMoveSizes, kPartSizes, kJoinSizes, kIndexSizes, kProductSizes, kNetworkSizes, kWindowSizes;

/// How many tensors an op gives that takes one apart. Raises NoRule for another op.
Size count_of_parts(std::string_view op, const SizeCall &call);
/// For squeeze: the dimensions that go where they are of size 1.
std::vector<std::size_t> squeezed(const SizeCall &call, std::size_t rank);

class SizeRules {
public:
  /// `integer`: an int of the graph as a Size.
  SizeRules(Shadow &shadow, const SizePoints &points, std::function<at::Tensor(std::size_t)> input,
            std::function<Size(torch::jit::Value *)> integer)
      : shadow_(shadow), points_(points), input_(std::move(input)), integer_(std::move(integer)) {}

  /// The sizes of a tensor. Null where not even the number of its dimensions is known.
  const Dims *dims(torch::jit::Value *tensor);
  const Parts *parts(torch::jit::Value *list);
  Size integer(torch::jit::Value *value) { return integer_(value); }
  /// `size` with the sizes of the trace.
  std::optional<std::int64_t> at_trace(const Size &size) const;
  const Shadow::Entry &entry(torch::jit::Value *value) { return shadow_.of(value); }
  /// For an op that takes a tensor apart: how many results. Not known for others.
  Size count(torch::jit::Node *node);
  /// For squeeze: the sizes of the dimensions that go where they are 1. Null: not known which.
  std::optional<Dims> squeezed_sizes(torch::jit::Node *node);
  /// The comparisons that the sizes of `value`, and of what it is computed from, make.
  std::vector<SizeExpression> bounds(torch::jit::Value *value);
  /// Forgets all: the dimensions that are specialized have changed.
  void restart();
  void forget(torch::jit::Node *node) { done_.erase(node); }
  void forget(torch::jit::Value *value) { known_.erase(value); }

private:
  using Known = std::optional<Parts>;
  const Known &of(torch::jit::Value *value);
  void infer(torch::jit::Node *node);
  Known infer_output(torch::jit::Node *node);
  void infer_op(torch::jit::Node *node);
  bool all_constant(torch::jit::Node *node);
  void set(torch::jit::Value *value, Known known);
  bool fits(torch::jit::Value *value, const Dims &dims);
  Known input_sizes(torch::jit::Value *value);
  Known at_trace(torch::jit::Value *value, bool constant);

  Shadow &shadow_;
  const SizePoints &points_;
  std::function<at::Tensor(std::size_t)> input_;
  std::function<Size(torch::jit::Value *)> integer_;
  std::unordered_map<const torch::jit::Value *, Known> known_;
  std::unordered_set<const torch::jit::Node *> done_;
};

/// Sizes at one of the points, for evaluating a condition.
class SizesAt final : public SizeSource {
public:
  SizesAt(const SizePoints &points, std::size_t point) : points_(points), point_(point) {}
  std::int64_t size(std::int32_t slot, std::int32_t dimension) const override {
    const int leaf = points_.leaf_at(static_cast<std::uint32_t>(slot), dimension);
    return points_.size(static_cast<std::size_t>(leaf), point_);
  }

private:
  const SizePoints &points_;
  std::size_t point_;
};

} // namespace tracehost::trace
