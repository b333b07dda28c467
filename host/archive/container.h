#pragma once

#include "archive/file.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

/// The zip that an archive is, read by its own directory.
///
/// Problem: readers of zips trust the sizes and offsets in the file. Answer: this one takes the
/// form that the writer gives alone: records that lie apart within the file, of known names, each
/// once, stored as they are or packed by deflate to no more than limits.h allows. PyTorch's reader
/// sees no byte of a file.

namespace tracehost::archive {

class Container {
public:
  /// Throws Error: its directory is not what the writer makes.
  explicit Container(std::shared_ptr<const OpenFile> file);

  bool has(const std::string &name) const { return records_.contains(name); }
  /// All of a record, unpacked. Throws Error.
  std::string text(const std::string &name) const;
  /// Bytes of a record of tensor data. Throws Error if there is no such record, or it is packed.
  std::size_t size(const std::string &name) const;
  /// Reads all of it; `into` has that size.
  void read(const std::string &name, void *into) const;

private:
  struct Record {
    std::uint64_t at = 0, stored = 0, unpacked = 0;
    bool packed = false;
  };
  const Record &record(const std::string &name) const;
  void add(const std::string &name, Record record, std::uint64_t header, std::uint64_t end);

  std::shared_ptr<const OpenFile> file_;
  std::map<std::string, Record> records_; ///< without the folder around them
};

inline constexpr const char *kSourceRecord = "code/__torch__/tracehost.py";

} // namespace tracehost::archive
