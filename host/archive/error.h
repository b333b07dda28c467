#pragma once

#include <algorithm>
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

/// The first line that says something: texts of PyTorch's begin with an empty one.
inline std::string first_line(std::string text) {
  text.erase(0, std::min(text.find_first_not_of(" \n"), text.size()));
  text.erase(std::min(text.find('\n'), text.size()));
  return text.empty() ? "an error without a text" : text;
}

} // namespace tracehost::archive
