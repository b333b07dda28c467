#pragma once

#include <c10/util/Exception.h>

namespace tracehost::tape {

/// For a scope, no op warns: the call itself says what its ops warn of. A warning that torch gives
/// once in a process is not used up, because torch takes it for one that is always given.
class Quiet final : c10::WarningHandler {
public:
  Quiet() : guard_(this) { c10::WarningUtils::set_warnAlways(true); }
  ~Quiet() override { c10::WarningUtils::set_warnAlways(always_); }
  void process(const c10::Warning &) override {}

private:
  const c10::WarningUtils::WarningHandlerGuard guard_;
  const bool always_ = c10::WarningUtils::get_warnAlways();
};

} // namespace tracehost::tape
