#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

/// The bytes of an archive, whose hash was verified over these very bytes: what other processes do
/// to the path meanwhile does not matter. Tensors lie in this memory, and keep it.

namespace tracehost::archive {

class OpenFile {
public:
  /// Reads all of it. Throws Error where there is no regular file, or it is no archive, or not as
  /// it was written. Never blocks, because a pipe is rejected and not read.
  static std::shared_ptr<const OpenFile> read(const std::string &path);
  /// The same of a file that nobody writes to: no memory is taken for it.
  static std::shared_ptr<const OpenFile> map(const std::string &path);
  /// The same of the bytes of a file, which go by `name` in messages.
  static std::shared_ptr<const OpenFile> copy(const std::string &name, std::string_view bytes);

  OpenFile(const OpenFile &) = delete;
  OpenFile &operator=(const OpenFile &) = delete;
  ~OpenFile() = default;

  std::string_view bytes() const { return {static_cast<const char *>(memory_.get()), size_}; }
  const std::string &hash() const { return hash_; }
  /// The SHA-256 of all bytes, in hex: what `sha256sum` prints. Computed when it is asked for.
  std::string sha256() const;

private:
  OpenFile(const std::string &name, c10::DataPtr memory, std::size_t size);

  c10::DataPtr memory_; ///< aligned as tensors are
  std::size_t size_;
  std::string hash_;
};

} // namespace tracehost::archive
