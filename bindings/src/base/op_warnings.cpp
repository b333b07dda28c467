#include "base/op_warnings.h"

#include <torch/csrc/Exceptions.h>

namespace tracehost::python {

void OpWarnings::give_kept() {
  torch::PyWarningHandler pythons; // its destructor warns
  for (const c10::Warning &warning : kept_)
    c10::warn(warning);
}

} // namespace tracehost::python
