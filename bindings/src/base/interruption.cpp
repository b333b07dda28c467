#include "base/interruption.h"

#include "base/errors.h"
#include "base/forget_error.h"
#include "base/object.h"
#include "program/interruption.h"

namespace tracehost::python {

namespace py = pybind11;

namespace {

unsigned long main_thread = 0; ///< Python runs handlers on this thread alone

void run_handlers() {
  if (PyThread_get_thread_ident() != main_thread || !python_alive())
    return;
  const WithGil gil;
  if (PyErr_CheckSignals())
    rethrow();
}

} // namespace

void add_interruption(py::module_ &m) {
  m.def("is_of_signal", [](const py::object &error) { return is_of_signal(error.ptr()); });
  const py::object main = py::module_::import("threading").attr("main_thread")();
  main_thread = py::cast<unsigned long>(main.attr("ident"));
  set_interruption_check(&run_handlers);
}

} // namespace tracehost::python
