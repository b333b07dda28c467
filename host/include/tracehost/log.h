#pragma once

#include "tracehost/export.h"

#include <cstdint>
#include <functional>
#include <string_view>

/// What the library says besides results and exceptions.
///
///     tracehost::set_log([](const tracehost::LogRecord &record) {
///       syslog(record.level == tracehost::LogLevel::info ? LOG_INFO : LOG_WARNING, "%.*s",
///              static_cast<int>(record.message.size()), record.message.data());
///     });

namespace tracehost {
inline namespace TRACEHOST_ABI {

enum class LogLevel : std::uint8_t {
  info,    ///< an archive was loaded or replaced, a function of Python's was traced
  warning, ///< a call was rejected or failed, a batch ran one by one
  error    ///< a Watcher does not take the new file
};

struct LogRecord {
  LogLevel level = LogLevel::info;
  std::string_view source;  ///< the function, or the path of the archive
  std::string_view message; ///< one line or more; begins with `source`
};

/// From now on `log` receives each record, on the thread where it comes up, and maybe on several at
/// once. What it throws is dropped. Empty, the default: nobody does, and nothing is written. Of
/// calls of one function that are rejected, and of those that fail, the 1st, 2nd, 4th, 8th ... are
/// reported. The views are valid during the call. Safe from any thread.
TRACEHOST_API void set_log(std::function<void(const LogRecord &)> log);

} // namespace TRACEHOST_ABI
} // namespace tracehost
