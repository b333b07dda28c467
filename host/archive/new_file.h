#pragma once

#include "archive/file_hash.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tracehost::archive {

/// A new file beside `path`, which takes its place when it is complete. A link stays: the file that
/// it leads to is the one that is replaced.
class NewFile {
public:
  /// Throws Error. So it does where `path` is a folder, a device, a pipe or a socket.
  explicit NewFile(const std::string &path);
  ~NewFile(); ///< removes what is not complete
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;

  /// Throws Error.
  void append(const void *bytes, std::size_t count);
  /// The hash of the bytes appended so far, in hex.
  std::string hash() const;
  /// After the zip's end: puts the comment behind it, and waits until all is on the disk.
  void complete();
  const std::string &beside() const { return beside_; } ///< where it is until publish()
  void publish();                                       ///< gives it its name

private:
  const std::string given_, path_; ///< as given, and where a link leads
  std::string beside_;
  int descriptor_ = -1;
  FileHash hash_;
  std::vector<char> tail_; ///< the last bytes: the zip's end, when it is complete
};

} // namespace tracehost::archive
