#include "shapes/rules.h"

#include <unordered_map>

namespace tracehost::shapes {

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
