#pragma once

#include "report/finding.h"
#include "signature/generalize.h"
#include "support/signatures.h"

#include <vector>

/// What the reports keep of calls.

namespace tracehost::test {

/// What is recorded of these calls if each is traced as it is, all in one Function.
inline std::vector<report::TraceRecord> traces(const std::vector<Signature> &calls) {
  std::vector<report::TraceRecord> result;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    report::TraceRecord &record = result.emplace_back();
    record.call = {"/home/me/train.py", 40};
    record.origin = i ? report::TraceRecord::Origin::differs : report::TraceRecord::Origin::initial;
    record.function = 1;
    record.number = i + 1;
    record.request = Sketch(calls[i]);
    Nearest nearest;
    for (std::size_t j = 0; j < i; ++j) {
      auto found = differences(calls[j], calls[i]);
      if (only_declarable(found))
        record.alike.push_back(j + 1);
      nearest.consider(j, std::move(found));
    }
    record.differences = nearest.differences;
  }
  return result;
}

/// A tensor of these sizes, alone or the first of its call.
inline Value sized(std::vector<std::int64_t> sizes, std::uint32_t slot = 0,
                   at::ScalarType dtype = at::kFloat) {
  return tensor(slot, meta(std::move(sizes), dtype));
}

inline Signature with(Signature signature, std::vector<Parameters::Kind> kinds,
                      std::vector<std::string> defaults) {
  Parameters parameters = *signature.parameters;
  parameters.kinds = std::move(kinds);
  parameters.defaults = std::move(defaults);
  signature.parameters = std::make_shared<const Parameters>(std::move(parameters));
  return signature;
}

} // namespace tracehost::test
