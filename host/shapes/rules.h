#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

namespace tracehost::shapes {

/// The results of an op without data, written with ops that have none either. `arguments` as its
/// schema has them: fake tensors, or tensors on "meta", which the results are then as well. Throws
/// what the op itself throws where sizes don't fit.
using Values = std::vector<c10::IValue>;
using Rule = Values (*)(const Values &arguments);

// Of an op that has a rule for some arguments only: what it does with the others.
/// By torch's C++ meta kernel.
Values by_meta(const char *op, const char *overload, Values arguments);
/// By the op's own code, which calls other ops.
Values by_composite(const char *op, const char *overload, Values arguments);

// Shared by files of rules.
/// (self, ...): as self is.
Values like_first(const Values &arguments);
/// (grad_out, query, key, value, ...); in memory, the heads come after the time.
Values attention_backward(const Values &arguments);

/// The rule for an op by its name with its overload, `aten::index_select` or `aten::max.dim`;
/// null: it has none.
Rule rule_for(std::string_view op);

// The tables, by what the ops do.
struct NamedRule {
  std::string_view op;
  Rule rule;
};
extern const std::vector<NamedRule> kFactoryRules, kElementwiseRules, kIndexRules, kNetworkRules,
    kConvolutionRules, kRecurrentRules, kCudaRules;

} // namespace tracehost::shapes
