#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

/// How an archive ends: with a comment of its zip that has the hash of all bytes before.
///
///     zip ... end of central directory, with a comment: `tracehost xxh3 <32 hex digits>`

namespace tracehost::archive {

inline constexpr std::string_view kMark = "tracehost xxh3 ";
inline constexpr std::size_t kDigits = 32;
inline constexpr std::size_t kComment = kMark.size() + kDigits; ///< bytes behind the zip's end
inline constexpr std::size_t kZipEnd = 22; ///< of a zip: its last record, without a comment

/// XXH3 of 128 bits: finds damage, at the speed of memory. It is no signature.
class FileHash {
public:
  FileHash();
  ~FileHash();
  FileHash(const FileHash &) = delete;
  FileHash &operator=(const FileHash &) = delete;

  void add(const void *bytes, std::size_t count);
  std::string digits() const; ///< in hex

private:
  struct State;
  const std::unique_ptr<State> state_;
};

} // namespace tracehost::archive
