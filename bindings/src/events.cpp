#include "events.h"

#include "call/function_type.h"
#include "report/detector.h"
#include "report/ledger.h"
#include "report/metrics.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

namespace tracehost::python {
namespace {

namespace py = pybind11;

py::dict fields(const report::HistoryEntry &entry) {
  py::dict result;
  result["kind"] = report::name(entry.kind);
  result["function"] = entry.name;
  result["definition"] = text(entry.definition);
  result["call"] = text(entry.call);
  result["signature"] = entry.signature;
  result["causes"] = py::tuple(py::cast(entry.causes));
  result["text"] = entry.text;
  result["notes"] = py::tuple(py::cast(entry.notes));
  result["ms"] = static_cast<double>(entry.nanoseconds) / 1e6;
  result["ops"] = entry.ops;
  result["bytes"] = entry.bytes;
  result["hits"] = entry.hits;
  result["dynamic"] = entry.dynamic;
  result["requested"] = entry.requested;
  return result;
}

py::list events(const py::object &function, bool graphs) {
  std::optional<std::uint64_t> number;
  if (!function.is_none()) {
    const Counters *counters = counters_of(function.ptr());
    if (!counters)
      throw py::type_error(fmt::format("tracehost.events() takes a Function, or nothing; got {}",
                                       std::string(py::repr(function))));
    number = counters->number;
  }
  py::list result;
  for (const auto &entry : report::ledger().history(number, graphs))
    result.append(fields(entry));
  return result;
}

py::list rows() {
  py::list result;
  for (const auto &row : report::ledger().rows()) {
    py::dict fields;
    fields["function"] = row.function;
    fields["calls"] = row.calls;
    fields["hits"] = row.hits;
    fields["traces"] = row.traces;
    fields["ms"] = static_cast<double>(row.nanoseconds) / 1e6;
    result.append(fields);
  }
  return result;
}

} // namespace

void add_events(py::module_ &module) {
  module.def("events", &events, py::arg("function") = py::none(), py::arg("graphs") = false);
  module.def("report_rows", &rows);
  module.def("metrics", [] { return report::prometheus(report::ledger().rows()); });
  module.def("set_retrace_limit", &report::set_retrace_limit);
}

} // namespace tracehost::python
