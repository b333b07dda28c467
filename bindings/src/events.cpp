#include "events.h"

#include "call/function_type.h"
#include "report/detector.h"
#include "report/event_stream.h"
#include "report/ledger.h"
#include "report/metrics.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

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
  result["time"] = entry.time;
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

py::object place(const Site &site) {
  if (site.file.empty())
    return py::none();
  py::dict result;
  result["file"] = site.file;
  result["line"] = site.line;
  result["text"] = text(site);
  return result;
}

/// As an event of the kind "functions" has them.
py::list rows(bool advised) {
  constexpr std::pair<const char *, std::uint64_t report::Row::*> counts[] = {
      {"calls", &report::Row::calls},       {"hits", &report::Row::hits},
      {"traces", &report::Row::traces},     {"retraces", &report::Row::retraces},
      {"inlined", &report::Row::inlined},   {"live", &report::Row::live},
      {"eager", &report::Row::eager},       {"failures", &report::Row::failures},
      {"rejected", &report::Row::rejected}, {"mismatches", &report::Row::mismatches},
  };
  py::list result;
  for (const auto &row : report::ledger().rows(advised)) {
    py::dict fields;
    fields["function"] = row.function;
    fields["qualified"] = row.qualified;
    fields["site"] = row.site;
    fields["definition"] = place(row.definition);
    for (const auto &[name, count] : counts)
      fields[name] = row.*count;
    fields["ms"] = static_cast<double>(row.nanoseconds) / 1e6;
    fields["cause"] = row.cause;
    fields["advice"] = row.advice;
    result.append(fields);
  }
  return result;
}

/// The latest events of the process as lines of JSON, in the order of their times.
std::vector<std::string> event_lines() {
  auto entries = report::ledger().history();
  const auto graphs = report::ledger().history(std::nullopt, true);
  entries.insert(entries.end(), graphs.begin(), graphs.end());
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto &a, const auto &b) { return a.time < b.time; });
  std::vector<std::string> lines;
  for (const auto &entry : entries)
    lines.push_back(report::line_of(entry));
  return lines;
}

} // namespace

void add_events(py::module_ &module) {
  module.def("events", &events, py::arg("function") = py::none(), py::arg("graphs") = false);
  module.def("report_rows", &rows, py::arg("advised") = false);
  module.def("retraces", [] { return report::ledger().retraces(); });
  module.def("event_lines", &event_lines);
  module.def("open_events", &report::open_events, py::arg("path"), py::arg("child"));
  module.def("write_event", &report::write_event);
  module.def("metrics", [] { return report::prometheus(report::ledger().rows()); });
  module.def("set_retrace_limit", &report::set_retrace_limit);
}

} // namespace tracehost::python
