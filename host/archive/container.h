#pragma once

#include "archive/open_file.h"

#include <c10/core/Allocator.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

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
  /// The same of a record that is not packed, in the file's memory. Throws Error.
  std::string_view bytes(const std::string &name) const;
  /// The same, for a tensor: it keeps that memory. Throws Error where it is not aligned, too.
  std::pair<c10::DataPtr, std::size_t> data(const std::string &name) const;

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

} // namespace tracehost::archive
