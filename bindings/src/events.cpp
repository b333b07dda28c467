#include "events.h"

#include "call/function_type.h"
#include "call/retraces.h"
#include "report/contrast.h"
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

py::tuple texts_of(const std::vector<std::string> &all) {
  py::tuple result(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    result[i] = text_of(all[i]);
  return result;
}

py::dict fields(const report::HistoryEntry &entry) {
  py::dict result;
  result["kind"] = report::name(entry.kind);
  result["function"] = text_of(entry.name);
  result["definition"] = text_of(text(entry.definition));
  result["call"] = text_of(text(entry.call));
  result["signature"] = text_of(entry.signature);
  result["causes"] = texts_of(entry.causes);
  result["text"] = text_of(entry.text);
  result["notes"] = texts_of(entry.notes);
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

/// What each definition site did: counts, and from 1 on the facts of its traces, at 2 with their
/// arguments.
py::list rows(int detail) {
  using Row = report::Row;
  constexpr std::pair<const char *, std::uint64_t Row::*> counts[] = {
      {"calls", &Row::calls},         {"hits", &Row::hits},
      {"traces", &Row::traces},       {"retraces", &Row::retraces},
      {"inlined", &Row::inlined},     {"live", &Row::live},
      {"eager", &Row::eager},         {"failures", &Row::failures},
      {"rejected", &Row::rejected},   {"mismatches", &Row::mismatches},
      {"validated", &Row::validated}, {"unvalidated", &Row::unvalidated},
      {"captured", &Row::captured},   {"uncaptured", &Row::uncaptured},
      {"dropped", &Row::dropped},     {"device_bytes", &Row::device_bytes},
  };
  py::list result;
  for (const auto &row : report::ledger().rows()) {
    py::dict fields;
    fields["function"] = text_of(row.function);
    fields["qualified"] = text_of(row.qualified);
    fields["archive"] = text_of(row.archive);
    fields["site"] = row.site;
    fields["definition"] = place(row.definition);
    for (const auto &[name, count] : counts)
      fields[name] = row.*count;
    fields["ms"] = static_cast<double>(row.nanoseconds) / 1e6;
    if (detail > 0)
      fields["account"] = facts_of(row.account, detail > 1);
    result.append(fields);
  }
  return result;
}

/// The words of one or more Differences of a kind, whose `paths` changed hand in hand.
py::str subject(const std::string &cause, const std::vector<std::string> &paths, int dimension,
                const std::string &where) {
  Difference difference{Cause::shape, paths.front(), dimension, {}, {}, -1, where};
  while (name(difference.cause) != cause)
    difference.cause = static_cast<Cause>(static_cast<int>(difference.cause) + 1);
  return text_of(report::subject(difference, paths));
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
  module.def("rows", &rows, py::arg("detail"));
  module.def("subject", &subject);
  module.def("totals", [] {
    const auto all = report::ledger().totals();
    return py::make_tuple(all.traces, all.retraces, static_cast<double>(all.nanoseconds) / 1e6);
  });
  module.def("event_lines", &event_lines);
  module.def("open_events", &report::open_events, py::arg("path"), py::arg("child"));
  module.def("write_event", &report::write_event);
  module.def("metrics", [] { return text_of(report::prometheus(report::ledger().rows())); });
  module.def("set_retrace_limit", &report::set_retrace_limit);
}

} // namespace tracehost::python
