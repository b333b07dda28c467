#include "tracehost/error.h"

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

SignatureError::SignatureError(const std::string &message, std::string parameter,
                               std::string expected, std::string got, std::string nearest)
    : Error(message), parameter_(std::move(parameter)), expected_(std::move(expected)),
      got_(std::move(got)), nearest_(std::move(nearest)) {}

PythonError::PythonError(std::string type, std::string message, std::string traceback)
    : Error(traceback.empty() ? message : message + "\n" + traceback), type_(std::move(type)),
      message_(std::move(message)), traceback_(std::move(traceback)) {}

} // namespace TRACEHOST_ABI
} // namespace tracehost
