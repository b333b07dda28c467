#include "report/warning.h"

#include <array>

namespace tracehost::report {

const char *name(Due::Kind kind) {
  static constexpr std::array<const char *, 4> names = {"first", "second", "eviction", "news"};
  return names[static_cast<std::size_t>(kind)];
}

} // namespace tracehost::report
