#pragma once

#include <caffe2/serialize/read_adapter_interface.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

/// The bytes of an archive: written whole or not at all, read only after its hash was verified.
///
///     zip ... end of central directory, with a comment: `tracehost xxh3 <32 hex digits>`
///
/// The hash is of all before the digits.

namespace tracehost::archive {

/// Throws the Error of a file that holds something else than save() writes.
[[noreturn]] void wrong_file(const std::string &what);

inline constexpr std::size_t kComment = 47; ///< bytes behind the zip's end

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
  const std::string &beside() const; ///< where it is until publish()
  void publish();                    ///< gives it its name

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An archive that is open: what other processes do to its path meanwhile does not matter.
class OpenFile final : public caffe2::serialize::ReadAdapterInterface {
public:
  /// Throws Error where there is no regular file, or it is no archive, or not as it was written.
  /// Never blocks, because a pipe is rejected and not read.
  explicit OpenFile(const std::string &path);
  /// The same of the bytes of a file, which go by `name` in messages.
  OpenFile(const std::string &name, std::string bytes);
  ~OpenFile() override;
  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;

  std::size_t size() const override { return size_; }
  std::size_t read(std::uint64_t at, void *into, std::size_t count,
                   const char *what = "") const override;
  const std::string &hash() const { return hash_; }

private:
  void verify(const std::string &path);
  int descriptor_ = -1; ///< or `bytes_`
  std::string bytes_;
  std::size_t size_ = 0;
  std::string hash_;
};

} // namespace tracehost::archive
