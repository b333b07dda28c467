#pragma once

#include "region/ops.h"
#include "tape/recording.h"

#include <vector>

/// Consecutive pointwise ops of a graph that may become one region (region/region.h).

namespace tracehost::tape {

class Group {
public:
  /// Adds an op, unless a region with the ops before can't have it. Then the group is as before.
  bool add(const jit::Node &node, const Recorded &found);

  bool empty() const { return nodes_.empty(); }
  const std::vector<const jit::Node *> &nodes() const { return nodes_; }
  bool has(const jit::Node *node) const;
  /// With the inputs and ops. The ops that are outputs are the caller's to name.
  const region::RegionPlan &plan() const { return plan_; }
  /// The values that the plan's inputs are, in its order.
  const std::vector<const jit::Value *> &inputs() const { return inputs_; }
  /// The op of the plan that gives the value. Requires: a node of the group gives it.
  int op_of(const jit::Value &value) const { return results_.at(&value).index; }
  std::int64_t numel() const { return numel_; }

private:
  bool takes(const at::Tensor &result) const;
  bool can_be_input(const jit::Value &value, const at::Tensor &result) const;
  std::optional<region::RegionInput> kind_of(const at::Tensor &t, const at::Tensor &result) const;
  std::optional<region::RegionArgument> argument(const jit::Value &value, const at::Tensor &result);

  const Recorded *found_ = nullptr; ///< in add()
  std::vector<const jit::Node *> nodes_;
  region::RegionPlan plan_;
  std::vector<const jit::Value *> inputs_;
  std::unordered_map<const jit::Value *, region::RegionOperand> results_;
  std::vector<std::int64_t> sizes_; ///< of each result
  std::int64_t numel_ = 0;
};

} // namespace tracehost::tape
