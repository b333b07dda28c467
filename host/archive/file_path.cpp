#include "archive/file_path.h"

#include "archive/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace tracehost::archive {

void check_path(const std::string &path) {
  if (const auto nul = path.find('\0'); nul != std::string::npos)
    throw Error(fmt::format("{} is followed by a NUL byte, and no file's path has one",
                            path.substr(0, nul)));
}

const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
         : S_ISFIFO(mode)                 ? "a pipe"
         : S_ISSOCK(mode)                 ? "a socket"
                                          : "no regular file";
}

std::string reason() { return std::strerror(errno); } // NOLINT(concurrency-mt-unsafe)

} // namespace tracehost::archive
