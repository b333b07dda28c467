#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The bytes of an archive: written whole or not at all, read only after its hash was verified.
///
///     zip ... end of central directory, with a comment: `tracehost xxh3 <32 hex digits>`
///
/// The hash is of all before the digits.

namespace tracehost::archive {

inline constexpr std::size_t kComment = 47; ///< bytes behind the zip's end

class FileHash;

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
  const std::unique_ptr<FileHash> hash_;
  std::vector<char> tail_; ///< the last bytes: the zip's end, when it is complete
};

/// An archive that is open: what other processes do to its path meanwhile does not matter.
class OpenFile {
public:
  /// Throws Error where there is no regular file, or it is no archive, or not as it was written.
  /// Never blocks, because a pipe is rejected and not read.
  explicit OpenFile(const std::string &path);
  /// The same of the bytes of a file, which go by `name` in messages.
  OpenFile(const std::string &name, std::string bytes);
  ~OpenFile();
  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;

  std::size_t size() const { return size_; }
  /// How many bytes there were to read.
  std::size_t read(std::uint64_t at, void *into, std::size_t count) const;
  const std::string &hash() const { return hash_; }

private:
  void verify(const std::string &path);
  int descriptor_ = -1; ///< or `bytes_`
  std::string bytes_;
  std::size_t size_ = 0;
  std::string hash_;
};

} // namespace tracehost::archive
