#include "archives.h"
#include "births.h"
#include "bridge.h"
#include "callbacks.h"
#include "concrete.h"
#include "conversion.h"
#include "engine.h"
#include "errors.h"
#include "events.h"
#include "foreign.h"
#include "function_type.h"
#include "guards/introspection.h"
#include "interruption.h"
#include "numbers.h"
#include "origin.h"
#include "report/ledger.h"
#include "requests.h"
#include "staging.h"
#include "stand_ins.h"
#include "switches.h"
#include "tensor_patches.h"
#include "tensor_spec.h"
#include "traced_number.h"

#include <pybind11/pybind11.h>

#include <string>

namespace py = pybind11;

// The package (tracehost/__init__.py) has checked torch's and Python's versions before it imports
// this.
PYBIND11_MODULE(_tracehost, m) {
  m.doc() = "The compiled part of tracehost.";
  m.attr("version") = TRACEHOST_VERSION;
  tracehost::python::errors(); // imported now: later an exception may be set, which imports do not
                               // take
  tracehost::python::add_origin(m);
  tracehost::python::add_interruption(m);
  tracehost::python::install_tensor_patches();
  tracehost::python::install_foreign_patches();
  tracehost::python::Births::install();
  m.attr("Function") = py::reinterpret_steal<py::object>(tracehost::python::make_function_type());
  m.def("show_call", [](py::object type, py::object function) {
    tracehost::python::show_call(type.ptr(), function.ptr());
  });
  tracehost::python::add_tensor_spec(m);
  tracehost::python::add_concrete(m);
  tracehost::python::add_requests(m);
  tracehost::python::add_archives(m);
  tracehost::python::add_bridge(m);
  tracehost::python::add_traced_number(m);
  tracehost::python::add_staging(m);
  tracehost::python::add_stand_ins(m);
  tracehost::python::add_conversion(m);
  tracehost::python::add_guards(m);
  tracehost::python::add_callbacks(m);
  tracehost::python::add_engine(m);
  tracehost::python::add_switches(m);
  tracehost::python::add_numbers(m);
  tracehost::python::add_events(m);
  m.def("report_table", [] { return tracehost::report::ledger().table(); });
  m.def("reset", [] { tracehost::report::ledger().reset(); });
}
