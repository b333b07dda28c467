#pragma once

#include "trace/frontend.h"

#include <string>

namespace tracehost::trace {

class Trace;

/// Why the body is no graph. The first reason counts. Code of the body may swallow the exception,
/// so the trace raises the reason again at its end.
class Rejections {
public:
  explicit Rejections(Trace &trace) : trace_(trace) {}

  [[noreturn]] void reject(Rejection why, const std::string &message);
  /// Raises again what was rejected, unless the trace was abandoned.
  void repeat() const;
  /// A block that was rejected is not run.
  void forgive() { rejected_ = false; }
  bool any() const { return rejected_; }
  /// Abandons the trace if it was rejected, and the body continues without it.
  bool abandons();
  bool abandoned() const { return abandoned_; }
  [[noreturn]] void throw_abandoned() const;

private:
  Trace &trace_;
  bool rejected_ = false;
  bool abandoned_ = false;
  Rejection why_ = Rejection::trace;
  std::string what_;
};

} // namespace tracehost::trace
