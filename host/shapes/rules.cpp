#include "shapes/rules.h"

#include <ATen/ops/empty_like.h>

#include <unordered_map>

namespace tracehost::shapes {

Values like_first(const Values &a) { return {at::empty_like(a[0].toTensor())}; }

Rule rule_for(std::string_view op) {
  static const auto rules = [] {
    std::unordered_map<std::string_view, Rule> all;
    for (const auto *table : {&kFactoryRules, &kElementwiseRules, &kIndexRules, &kNetworkRules,
                              &kConvolutionRules, &kRecurrentRules, &kCudaRules})
      for (const NamedRule &named : *table)
        all.emplace(named.op, named.rule);
    return all;
  }();
  const auto found = rules.find(op);
  return found == rules.end() ? nullptr : found->second;
}

} // namespace tracehost::shapes
