#pragma once

#include "tape/operands.h"

#include <c10/util/Exception.h>

#include <vector>

namespace tracehost::python {

/// Keeps what the ops of a graph's run warn of (Operands::warn()). A run that serves the call gives
/// it to Python, as torch's bindings do for an op; the line is that of the call. Of a run that
/// throws it is dropped, as the body runs in its place, or never ran.
class OpWarnings final : public c10::WarningHandler {
public:
  explicit OpWarnings(Operands &operands) : operands_(operands) { operands.warn(this); }
  ~OpWarnings() override { operands_.warn(nullptr); }
  OpWarnings(const OpWarnings &) = delete;
  OpWarnings &operator=(const OpWarnings &) = delete;
  void process(const c10::Warning &warning) override { kept_.push_back(warning); }
  /// At the run's end. Throws python_error where a filter of Python's makes an error of a warning.
  /// Requires: GIL held.
  void give() {
    if (!kept_.empty()) [[unlikely]]
      give_kept();
  }

private:
  void give_kept();

  Operands &operands_;
  std::vector<c10::Warning> kept_;
};

} // namespace tracehost::python
