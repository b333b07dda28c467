#include "event/event.h"

namespace tracehost {

std::string text(const Site &site) {
  if (site.file.empty())
    return "?";
  const std::string file = site.file.substr(site.file.rfind('/') + 1);
  return site.line > 0 ? file + ":" + std::to_string(site.line) : file;
}

} // namespace tracehost
