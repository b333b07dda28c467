#include "signature/signature.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fmt/format.h>

namespace tracehost {
namespace {

/// The modes of a thread that has switched none.
Context usual_context() {
  Context usual;
  usual.included = c10::default_included_set.raw_repr();
  usual.excluded = c10::default_excluded_set.raw_repr();
  return usual;
}

} // namespace

std::string call_text(const Signature &signature) {
  Signature arguments;
  arguments.parameters = signature.parameters;
  arguments.nodes = signature.nodes;
  arguments.atoms = signature.atoms;
  arguments.slots = signature.slots;
  std::string result = text(arguments);
  const char *lead = " with ";
  for (const auto &[field, before, after] : differences(usual_context(), signature.context)) {
    result += fmt::format("{}{} {}", lead, field, after);
    lead = ", ";
  }
  return result;
}

} // namespace tracehost
