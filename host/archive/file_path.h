#pragma once

#include <sys/stat.h>

#include <string>

/// What a path leads to, before a file is opened or made there.

namespace tracehost::archive {

/// Throws Error: it has a NUL, and a system call would take the path for one that ends there.
void check_path(const std::string &path);
/// `a folder`, `a pipe` ...: what is no regular file.
const char *kind_of(mode_t mode);
/// Of the system call that failed last.
std::string reason();

} // namespace tracehost::archive
