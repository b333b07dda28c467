#include "event/event.h"

namespace tracehost {

std::string text(const Site &site) {
  if (site.file.empty())
    return "?";
  const std::string file = site.file.substr(site.file.rfind('/') + 1);
  return site.line > 0 ? file + ":" + std::to_string(site.line) : file;
}

std::uint64_t next_function_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace tracehost
