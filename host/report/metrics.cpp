#include "report/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tracehost::report {
namespace {

/// In a label's quotes.
std::string escaped(const std::string &label) {
  std::string result;
  for (const char c : label) {
    if (c == '\\' || c == '"')
      result += '\\';
    if (c == '\n')
      result += "\\n";
    else
      result += c;
  }
  return result;
}

class Page {
public:
  void family(const char *name, const char *type, const char *help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class Number> void sample(const Row &row, const std::string &label, Number value) {
    const std::string archive =
        row.archive.empty() ? "" : fmt::format(",archive=\"{}\"", row.archive);
    text_ += fmt::format("{}{{function=\"{}\"{}{}}} {}\n", name_, escaped(row.function), archive,
                         label, value);
  }
  std::string take() { return std::move(text_); }

private:
  std::string name_, text_;
};

/// A page has each label once, so files of one name in two folders are reported together.
std::vector<Row> by_label(std::vector<Row> rows) {
  std::vector<Row> result;
  for (Row &row : rows) {
    const auto known = std::find_if(result.begin(), result.end(), [&](const Row &other) {
      return other.function == row.function && other.archive == row.archive;
    });
    if (known == result.end())
      result.push_back(std::move(row));
    else
      *known += row;
  }
  return result;
}

std::string result(const char *name) { return fmt::format(",result=\"{}\"", name); }

} // namespace

std::string prometheus(std::vector<Row> rows, std::size_t most) {
  rows = by_label(std::move(rows));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row &a, const Row &b) { return a.calls > b.calls; });
  if (rows.size() > most) {
    Row other{.function = "other"};
    for (auto row = rows.begin() + static_cast<std::ptrdiff_t>(most); row != rows.end(); ++row)
      other += *row;
    rows.resize(most);
    rows.push_back(std::move(other));
  }
  Page page;
  page.family("tracehost_calls_total", "counter", "Calls, by what served them.");
  for (const Row &row : rows) {
    page.sample(row, result("hit"), row.hits);
    page.sample(row, result("trace"), row.traces);
    page.sample(row, result("eager"), row.eager);
    page.sample(row, result("failed"), row.failures);
    page.sample(row, result("rejected"), row.rejected);
  }
  page.family("tracehost_trace_seconds_total", "counter", "Time spent in traces.");
  for (const Row &row : rows)
    page.sample(row, {}, static_cast<double>(row.nanoseconds) * 1e-9);
  const auto retraced = [](const Row &row) { return !row.retraces_by.empty(); };
  if (std::any_of(rows.begin(), rows.end(), retraced))
    page.family("tracehost_retraces_total", "counter", "Traces that calls made again, by cause.");
  for (const Row &row : rows)
    for (const auto &[cause, count] : row.retraces_by)
      page.sample(row, fmt::format(",cause=\"{}\"", cause), count);
  page.family("tracehost_evictions_total", "counter", "Graphs that left a full cache.");
  for (const Row &row : rows)
    page.sample(row, {}, row.evicted);
  page.family("tracehost_specializations", "gauge", "Graphs that can serve a call now.");
  for (const Row &row : rows)
    page.sample(row, {}, row.live);
  if (std::none_of(rows.begin(), rows.end(), [](const Row &row) { return row.captured > 0; }))
    return page.take();
  page.family("tracehost_cuda_graph_bytes", "gauge", "Device memory of CUDA graphs now.");
  for (const Row &row : rows)
    page.sample(row, {}, row.device_bytes);
  return page.take();
}

} // namespace tracehost::report
