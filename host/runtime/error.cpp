#include "tracehost/error.h"

#include <fmt/format.h>

#include <utility>

// Out of line, so that each type's information is in this library alone, and a handler of another
// one finds it.

namespace tracehost {
inline namespace TRACEHOST_ABI {

Error::~Error() = default;
ArchiveError::~ArchiveError() = default;
DeviceError::~DeviceError() = default;
Interrupted::~Interrupted() = default;
Overloaded::~Overloaded() = default;
TraceError::~TraceError() = default;
SignatureError::~SignatureError() = default;
PythonError::~PythonError() = default;
OpError::~OpError() = default;

const char *text(ErrorCode code) noexcept {
  switch (code) {
  case ErrorCode::other:
    return "other";
  case ErrorCode::signature:
    return "signature";
  case ErrorCode::archive:
    return "archive";
  case ErrorCode::interrupted:
    return "interrupted";
  case ErrorCode::stopped:
    return "stopped";
  case ErrorCode::deadline:
    return "deadline";
  case ErrorCode::overloaded:
    return "overloaded";
  case ErrorCode::device:
    return "device";
  case ErrorCode::trace:
    return "trace";
  case ErrorCode::python:
    return "python";
  case ErrorCode::op:
    return "op";
  }
  return "other";
}

namespace {

ErrorCode code_of(Interrupted::Cause cause) {
  switch (cause) {
  case Interrupted::Cause::interrupt:
    return ErrorCode::interrupted;
  case Interrupted::Cause::stop:
    return ErrorCode::stopped;
  case Interrupted::Cause::deadline:
    return ErrorCode::deadline;
  }
  return ErrorCode::interrupted;
}

std::string message_of(Interrupted::Cause cause, bool may_have_written,
                       const std::string &function) {
  const char *const by = cause == Interrupted::Cause::interrupt ? "interrupt() has ended the call"
                         : cause == Interrupted::Cause::stop ? "its stop token has ended the call"
                                                             : "the call has passed its deadline";
  return fmt::format("{}{}{}{}", function, function.empty() ? "" : ": ", by,
                     may_have_written ? "; the ops that ran may have written to tensors or drawn "
                                        "random numbers"
                                      : "");
}

std::string where(const std::string &place, const std::string &function) {
  return place.empty() ? fmt::format("in {}", function)
                       : fmt::format("at {}, in {}", place, function);
}

} // namespace

Interrupted::Interrupted(Cause cause, bool may_have_written, const std::string &function)
    : Error(message_of(cause, may_have_written, function), code_of(cause)), cause_(cause),
      may_have_written_(may_have_written) {}

SignatureError::SignatureError(const std::string &message, std::string parameter,
                               std::string expected, std::string got, std::string nearest)
    : Error(message, ErrorCode::signature), parameter_(std::move(parameter)),
      expected_(std::move(expected)), got_(std::move(got)), nearest_(std::move(nearest)) {}

PythonError::PythonError(std::string type, std::string message, std::string traceback)
    : PythonError(std::move(type), std::move(message), std::move(traceback), ErrorCode::python) {}

PythonError::PythonError(std::string type, std::string message, std::string traceback,
                         ErrorCode code)
    : Error(traceback.empty() ? message : message + "\n" + traceback, code), type_(std::move(type)),
      message_(std::move(message)), traceback_(std::move(traceback)) {}

OpError::OpError(std::string type, std::string message, std::string place, std::string function)
    : PythonError(std::move(type), std::move(message), where(place, function), ErrorCode::op),
      place_(std::move(place)), function_(std::move(function)) {}

} // namespace TRACEHOST_ABI
} // namespace tracehost
