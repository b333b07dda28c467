#include "base/autograph.h"
#include "base/errors.h"
#include "base/interruption.h"
#include "base/origin.h"
#include "call/function_type.h"
#include "call/gate.h"
#include "call/stance.h"
#include "concrete/concrete.h"
#include "events.h"
#include "export/export.h"
#include "hooks/autograd_function.h"
#include "hooks/callbacks.h"
#include "hooks/engine.h"
#include "hooks/fake_tensors.h"
#include "hooks/staging.h"
#include "hooks/tensor_patches.h"
#include "numbers/number_ops.h"
#include "numbers/traced_number.h"
#include "observe/allocations.h"
#include "observe/introspection.h"
#include "pytree/tensor_spec.h"
#include "report/ledger.h"
#include "sigterm.h"
#include "tape/replaced_kernels.h"

#include <pybind11/pybind11.h>

#include <string>

namespace py = pybind11;

// The package (tracehost/__init__.py) has checked torch's and Python's versions before it imports
// this.
PYBIND11_MODULE(_tracehost, m) {
  m.doc() = "The compiled part of tracehost.";
  m.attr("version") = TRACEHOST_VERSION;
  py::register_local_exception_translator(&tracehost::python::translate_exception);
  tracehost::python::errors(); // imported now: later an exception may be set, which imports do not
                               // take
  tracehost::python::add_origin(m);
  tracehost::python::add_interruption(m);
  tracehost::python::install_tensor_patches();
  tracehost::python::install_foreign_patches();
  tracehost::python::Allocations::install();
  m.attr("Function") = py::reinterpret_steal<py::object>(tracehost::python::make_function_type());
  m.def("show", [](py::object type, const char *name, py::object value) {
    tracehost::python::show(type.ptr(), name, value.ptr());
  });
  tracehost::python::add_tensor_spec(m);
  tracehost::python::add_concrete(m);
  tracehost::python::add_requests(m);
  tracehost::python::add_archives(m);
  tracehost::python::add_bridge(m);
  tracehost::python::add_traced_number(m);
  tracehost::python::add_staging(m);
  tracehost::python::add_fake_tensors(m);
  tracehost::python::add_conversion(m);
  tracehost::python::add_guards(m);
  tracehost::python::add_callbacks(m);
  tracehost::python::add_engine(m);
  tracehost::python::add_switches(m);
  tracehost::python::add_gate(m);
  tracehost::python::add_numbers(m);
  tracehost::python::add_events(m);
  tracehost::python::add_sigterm(m);
  m.def("note_kernels", &tracehost::tape::note_kernels, py::arg("replaces_cpu"));
  m.def("reset", [] { tracehost::report::ledger().reset(); });
}
