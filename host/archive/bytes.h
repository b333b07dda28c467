#pragma once

#include "archive/error.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

/// Numbers and texts of a record, one behind the other.
///
///     number    LEB128: seven bits a byte, the lowest first; the last byte is below 128
///     integer   a number: 2n for n >= 0, -2n - 1 below (zigzag)
///     bits      64 bits of a float, little-endian
///     text      a number, and so many bytes

namespace tracehost::archive {

class ByteWriter {
public:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void integer(std::int64_t value) {
    number((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void bits(double value) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    bytes_.append(reinterpret_cast<const char *>(&bits), sizeof bits);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  const std::string &bytes() const { return bytes_; }

private:
  std::string bytes_;
};

/// Each method throws Error where the bytes end before, or are not of the form above.
class ByteReader {
public:
  /// `ends_early`: what the Error says where the bytes end before.
  explicit ByteReader(std::string_view bytes, const char *ends_early = "its graphs end early")
      : rest_(bytes), ends_early_(ends_early) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint64_t byte = next();
      if (shift == 63 && byte > 1)
        break;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80)
        return value;
    }
    wrong_file("a number in its graphs is too large");
  }
  /// Throws where it is not below `limit`.
  std::size_t below(std::size_t limit, const char *what) {
    const std::uint64_t value = number();
    if (value >= limit)
      wrong_file(std::string("a graph names ") + what + " that is not there");
    return static_cast<std::size_t>(value);
  }
  /// How many things follow, each of at least a byte.
  std::size_t count() {
    const std::uint64_t value = number();
    if (value > rest_.size())
      wrong_file(ends_early_);
    return static_cast<std::size_t>(value);
  }
  std::int64_t integer() {
    const std::uint64_t value = number();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  bool flag() {
    const std::uint64_t value = number();
    if (value > 1)
      wrong_file("a flag in it is neither 0 nor 1");
    return value != 0;
  }
  double bits() { return std::bit_cast<double>(little(sizeof(double))); }
  /// A number of so many bytes, little-endian.
  std::uint64_t little(std::size_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, take(bytes).data(), bytes);
    return value;
  }
  std::string_view text() { return take(count()); }
  std::string_view take(std::size_t size) {
    if (size > rest_.size())
      wrong_file(ends_early_);
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  bool empty() const { return rest_.empty(); }

private:
  std::uint64_t next() { return static_cast<unsigned char>(take(1)[0]); }
  std::string_view rest_;
  const char *ends_early_;
};

} // namespace tracehost::archive
