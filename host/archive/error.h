#pragma once

#include <stdexcept>
#include <string>

namespace tracehost::archive {

/// A file that can't be written or read, or a device that it can't be loaded to.
class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

/// Throws the Error of a file that holds something else than save() writes.
[[noreturn]] inline void wrong_file(const std::string &what) {
  throw Error("it is not what tracehost writes: " + what);
}
/// The same of its manifest.
[[noreturn]] inline void wrong_manifest(const std::string &what) {
  throw Error("its manifest is wrong: " + what);
}

} // namespace tracehost::archive
