#include "event/event.h"

#include <string_view>

namespace tracehost {

namespace {

/// Packages are installed in `site-packages`, those of Debian in `dist-packages`. There a file's
/// last component alone says little: many packages have a `utils.py`.
std::string shown(const std::string &file) {
  constexpr std::string_view packages = "-packages/";
  if (const auto at = file.rfind(packages); at != std::string::npos)
    return file.substr(at + packages.size());
  return file.substr(file.rfind('/') + 1);
}

} // namespace

std::string text(const Site &site) {
  if (site.file.empty())
    return "?";
  std::string result = shown(site.file);
  if (site.line > 0)
    result += ":" + std::to_string(site.line);
  if (!site.inside.empty())
    result += " (in " + site.inside + ")";
  return result;
}

std::uint64_t next_function_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

} // namespace tracehost
