#pragma once

#include "report/history.h"

#include <string>

/// Every event of the process, as a line of JSON in a file: `tracehost --events FILE`.
///
/// A line is one write(2) to a file opened for appending. So lines of several threads do not mix,
/// and a line that was written stays after a kill. A forked child has a file of its own, FILE.PID,
/// from its first event on. Where a line cannot be written whole, on a full disk, it is lost and
/// the program runs on. So are all lines after the program has closed the file's descriptor.
/// docs/operations/events.schema.json has the fields.

namespace tracehost::report {

/// The version of the lines; another one for a field that goes or changes its meaning.
inline constexpr int kEventVersion = 1;

/// `{"version": 1, "time": 1790000000.25, "pid": 7, "event": "trace", ...}`, without a newline.
/// What is no UTF-8 is replaced. Throws std::bad_alloc.
std::string line_of(const HistoryEntry &entry);

/// From now on events of this process go to `path`, which is emptied: lines of C++'s events, and
/// what write_event() is given. `child`: to `path`.PID, which begins with the first event.
/// `-`: stderr, of children, too. Throws std::system_error. Once for the process.
void open_events(const std::string &path, bool child);

/// Whether open_events() has been called: else a line need not be made.
bool writes_events() noexcept;

/// Appends the line and a newline. Safe from any thread, and in a forked child.
void write_event(std::string line) noexcept;

} // namespace tracehost::report
