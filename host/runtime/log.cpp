#include "runtime/log.h"

#include <atomic>
#include <exception>
#include <memory>
#include <utility>

namespace tracehost {
namespace {

using Receiver = std::function<void(const LogRecord &)>;

/// Never destroyed: threads may log while the process ends.
std::atomic<std::shared_ptr<const Receiver>> &receiver() {
  static auto *only = new std::atomic<std::shared_ptr<const Receiver>>;
  return *only;
}

} // namespace

inline namespace TRACEHOST_ABI {

void set_log(Receiver log) {
  receiver() = log ? std::make_shared<const Receiver>(std::move(log)) : nullptr;
}

} // namespace TRACEHOST_ABI

namespace runtime {

bool logs() noexcept { return receiver().load() != nullptr; }

void log(LogLevel level, const std::string &source, const std::string &message) noexcept {
  const auto to = receiver().load();
  if (!to)
    return;
  try {
    (*to)({level, source, message});
  } catch (...) { // nobody is there to receive it
  }
}

std::string text_of_exception() {
  try {
    throw;
  } catch (const std::exception &e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

} // namespace runtime
} // namespace tracehost
