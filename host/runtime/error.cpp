#include "tracehost/error.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
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

namespace {

/// In the order of ErrorCode.
constexpr std::array kNames{"other",   "signature", "archive",    "interrupted",
                            "stopped", "deadline",  "overloaded", "device",
                            "trace",   "python",    "op"};
static_assert(kNames.size() == static_cast<std::size_t>(ErrorCode::op) + 1);

std::string message_of(ErrorCode why, bool may_have_written, const std::string &function) {
  const char *const by = why == ErrorCode::deadline  ? "the call has passed its deadline"
                         : why == ErrorCode::stopped ? "its stop token has ended the call"
                                                     : "interrupt() has ended the call";
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

const char *text(ErrorCode code) noexcept {
  const auto number = static_cast<std::size_t>(code);
  return kNames[number < kNames.size() ? number : 0];
}

Interrupted::Interrupted(ErrorCode why, bool may_have_written, const std::string &function)
    : Error(message_of(why, may_have_written, function), why), may_have_written_(may_have_written) {
}

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
