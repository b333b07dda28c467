#include "base/kernel_registry.h"

#include "tape/replaced_kernels.h"

namespace tracehost::python {

void add_kernel_registry(pybind11::module_ &m) {
  m.def("note_kernels", &tape::note_kernels, pybind11::arg("replaces_cpu"));
}

} // namespace tracehost::python
