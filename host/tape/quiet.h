#pragma once

#include <c10/util/Exception.h>

namespace tracehost::tape {

/// For a scope, no op warns: the call itself says what its ops warn of. A warning that torch gives
/// once in a process is not used up, because torch takes it for one that is always given.
class Quiet final : c10::WarningHandler {
public:
  Quiet();
  ~Quiet() override;
  void process(const c10::Warning &) override {}

private:
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

} // namespace tracehost::tape
