#pragma once

#include <c10/util/Exception.h>

#include <vector>

namespace tracehost::python {

/// For the scope of a graph's run: keeps what its ops warn of. A run that serves the call gives it
/// to Python, as torch's bindings do for an op; the line is that of the call. Of a run that throws
/// it is dropped, as the body runs in its place, or never ran.
class OpWarnings final : c10::WarningHandler {
public:
  OpWarnings() : guard_(this) {}
  void process(const c10::Warning &warning) override { kept_.push_back(warning); }
  /// At the run's end. Throws python_error where a filter of Python's makes an error of a warning.
  /// Requires: GIL held.
  void give() {
    if (!kept_.empty()) [[unlikely]]
      give_kept();
  }

private:
  void give_kept();

  std::vector<c10::Warning> kept_;
  const c10::WarningUtils::WarningHandlerGuard guard_;
};

} // namespace tracehost::python
