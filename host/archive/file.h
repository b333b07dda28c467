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

/// A new file beside `path`, which takes its place when it is complete.
class NewFile {
public:
  /// Throws Error.
  explicit NewFile(std::string path);
  ~NewFile(); ///< removes what is not complete
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;

  /// Throws Error.
  void append(const void *bytes, std::size_t count);
  /// Of what was appended so far, in hex.
  std::string hash() const;
  /// After the zip's end: puts the comment behind it, waits until all is on the disk, renames.
  void complete();

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// An archive that is open: what other processes do to its path meanwhile does not matter.
class OpenFile final : public caffe2::serialize::ReadAdapterInterface {
public:
  /// Throws Error where there is no file, or it is no archive, or not as it was written.
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
