#include "report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace tracehost::report {
namespace {

constexpr std::array kCounts = {
    &Row::calls,       &Row::hits,         &Row::traces,      &Row::inlined,    &Row::live,
    &Row::nanoseconds, &Row::validated,    &Row::unvalidated, &Row::mismatches, &Row::eager,
    &Row::failures,    &Row::rejected,     &Row::retraces,    &Row::captured,   &Row::uncaptured,
    &Row::dropped,     &Row::device_bytes, &Row::evicted};

using Cells = std::array<std::string, 9>;

const Cells header = {"function", "calls",    "hits",     "traces",    "inlined",
                      "live",     "hit rate", "trace ms", "main cause"};

Cells cells(const Row &row) {
  const std::string rate = row.calls == 0
                               ? "-"
                               : fmt::format("{:.1f} %", 100.0 * static_cast<double>(row.hits) /
                                                             static_cast<double>(row.calls));
  return {row.function,
          fmt::to_string(row.calls),
          fmt::to_string(row.hits),
          fmt::to_string(row.traces),
          fmt::to_string(row.inlined),
          fmt::to_string(row.live),
          rate,
          fmt::format("{:.1f}", static_cast<double>(row.nanoseconds) / 1e6),
          row.cause};
}

Row total(const std::vector<Row> &rows) {
  Row sum{.function = "total"};
  for (const Row &row : rows)
    sum += row;
  return sum;
}

/// In code points: close enough to columns for names.
std::size_t width(const std::string &text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xC0) != 0x80; }));
}

std::string line(const Cells &cells, const std::array<std::size_t, 9> &widths) {
  std::string result = cells[0];
  result.append(widths[0] - width(cells[0]), ' ');
  for (std::size_t c = 1; c < cells.size(); ++c) {
    const bool last = c + 1 == cells.size();
    result.append(2 + (last ? 0 : widths[c] - width(cells[c])), ' ');
    result += cells[c];
  }
  result.erase(result.find_last_not_of(' ') + 1);
  return result + "\n";
}

std::string validation(const Row &total) {
  if (total.mismatches == 0)
    return {};
  return fmt::format("validation: {} checked, {} not checked, {} wrong\n", total.validated,
                     total.unvalidated, total.mismatches);
}

std::string cuda_graphs(const Row &total) {
  if (total.captured == 0 && total.uncaptured == 0)
    return {};
  constexpr double mebibyte = 1024.0 * 1024.0;
  return fmt::format("CUDA graphs: {} captured, {} not captured, {} dropped, {:.1f} MiB of device "
                     "memory\n",
                     total.captured, total.uncaptured, total.dropped,
                     static_cast<double>(total.device_bytes) / mebibyte);
}

} // namespace

Row &Row::operator+=(const Row &other) {
  for (const auto count : kCounts)
    this->*count += other.*count;
  for (const auto &[cause, count] : other.retraces_by)
    retraces_by[cause] += count;
  return *this;
}

Row &Row::operator-=(const Row &other) {
  for (const auto count : kCounts)
    this->*count -= other.*count;
  for (const auto &[cause, count] : other.retraces_by)
    retraces_by[cause] -= count;
  return *this;
}

std::string table(std::vector<Row> rows) {
  if (rows.empty())
    return "tracehost: no Function was called.\n";
  std::stable_sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
    return a.nanoseconds != b.nanoseconds ? a.nanoseconds > b.nanoseconds : a.calls > b.calls;
  });
  std::map<std::string, int> named;
  for (const Row &row : rows)
    ++named[row.function];
  for (Row &row : rows) // archives of one name
    if (!row.archive.empty() && named[row.function] > 1)
      row.function.insert(row.function.size() - 1, " " + row.archive);
  std::vector<Cells> lines = {header};
  for (const Row &row : rows)
    lines.push_back(cells(row));
  lines.push_back(cells(total(rows)));
  std::array<std::size_t, 9> widths{};
  for (const Cells &cells : lines)
    for (std::size_t c = 0; c < cells.size(); ++c)
      widths[c] = std::max(widths[c], width(cells[c]));
  std::string result;
  for (const Cells &cells : lines)
    result += line(cells, widths);
  return result + validation(total(rows)) + cuda_graphs(total(rows));
}

} // namespace tracehost::report
