#include "archive/container.h"

#include "archive/bytes.h"
#include "archive/error.h"
#include "archive/file_hash.h"
#include "archive/limits.h"

#include <c10/core/alignment.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

// miniz, which libtorch_cpu.so has for its own zips and exports.
extern "C" std::size_t tinfl_decompress_mem_to_mem(void *to, std::size_t to_size, const void *from,
                                                   std::size_t from_size, int flags);

namespace tracehost::archive {
namespace {

constexpr std::string_view kFolder = "archive/";
constexpr std::size_t kLocator = 20, kLongEnd = 56, kEntry = 46, kHeader = 30;
constexpr std::uint32_t kShortEndMark = 0x06054b50, kLocatorMark = 0x07064b50,
                        kLongEndMark = 0x06064b50, kEntryMark = 0x02014b50,
                        kHeaderMark = 0x04034b50;
constexpr std::uint64_t kIn64 = 0xffffffff; ///< the number is in the entry's extra field

/// Of the directory, or of a piece of it.
ByteReader fields(std::string_view bytes) { return ByteReader(bytes, "its directory is cut off"); }

std::string_view piece(const OpenFile &file, std::uint64_t at, std::uint64_t count) {
  if (at > file.bytes().size() || count > file.bytes().size() - at)
    wrong_file("a part of it would lie behind its end");
  return file.bytes().substr(at, count);
}

struct Directory {
  std::uint64_t entries = 0, size = 0, at = 0;
};

Directory directory_of(const OpenFile &file) {
  const std::uint64_t end_at = file.bytes().size() - kComment - kZipEnd;
  ByteReader end = fields(piece(file, end_at, kZipEnd));
  if (end.little(4) != kShortEndMark || end.little(4) != 0)
    wrong_file("its zip does not end");
  Directory directory;
  directory.entries = end.little(2);
  end.take(2);
  directory.size = end.little(4);
  directory.at = end.little(4);
  std::uint64_t behind = end_at;
  if (end_at >= kLocator + kLongEnd) {
    ByteReader locator = fields(piece(file, end_at - kLocator, kLocator));
    if (locator.little(4) == kLocatorMark) {
      locator.take(4);
      const std::uint64_t at = locator.little(8);
      ByteReader end64 = fields(piece(file, at, kLongEnd));
      if (end64.little(4) != kLongEndMark)
        wrong_file("its zip does not end");
      end64.take(20);
      directory.entries = end64.little(8);
      end64.take(8);
      directory.size = end64.little(8);
      directory.at = end64.little(8);
      behind = at;
    }
  }
  if (directory.at > behind || directory.size > behind - directory.at)
    wrong_file("its directory lies behind its end");
  if (directory.entries > directory.size / kEntry)
    wrong_file("its directory is cut off");
  return directory;
}

bool is_numeral(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Nothing else is in an archive; what is not read does no harm, but is not what was saved.
bool is_known(std::string_view name) {
  constexpr std::array<std::string_view, 12> names = {
      "data.pkl",
      "constants.pkl",
      "code/__torch__/tracehost.py",
      "version",
      ".data/version", // in its place, for operators of newer forms
      "byteorder",
      ".data/serialization_id",
      ".format_version",
      ".storage_alignment",
      "extra/tracehost.json",
      "extra/tracehost.graphs",
      "code/__torch__/tracehost.py.debug_pkl"};
  if (std::find(names.begin(), names.end(), name) != names.end())
    return true;
  for (const std::string_view folder : {"data/", "constants/"})
    if (name.starts_with(folder) && is_numeral(name.substr(folder.size())))
      return true;
  return false;
}

} // namespace

Container::Container(std::shared_ptr<const OpenFile> file) : file_(std::move(file)) {
  const Directory directory = directory_of(*file_);
  ByteReader all = fields(piece(*file_, directory.at, directory.size));
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    if (all.little(4) != kEntryMark)
      wrong_file("its directory has another form");
    all.take(4);
    const std::uint64_t flags = all.little(2), method = all.little(2);
    all.take(8);
    Record record;
    record.stored = all.little(4);
    record.unpacked = all.little(4);
    const std::uint64_t name_size = all.little(2), extra_size = all.little(2);
    const std::uint64_t note_size = all.little(2);
    all.take(8);
    std::uint64_t header = all.little(4);
    const std::string name(all.take(name_size));
    ByteReader extra = fields(all.take(extra_size));
    all.take(note_size);
    while (!extra.empty()) {
      const std::uint64_t kind = extra.little(2);
      ByteReader content = fields(extra.take(extra.little(2)));
      if (kind != 1)
        continue;
      for (std::uint64_t *number : {&record.unpacked, &record.stored, &header})
        if (*number == kIn64)
          *number = content.little(8);
    }
    if ((flags & 1) != 0 || (method != 0 && method != 8))
      wrong_file("a record in it is encrypted, or packed in another way");
    record.packed = method == 8;
    add(name, record, header, directory.at);
  }
  // Apart from each other: what they hold together is no more than the file.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto &[name, record] : records_)
    places.emplace_back(record.at, record.stored);
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].first - places[i - 1].first < places[i - 1].second)
      wrong_file("two records in it are at one place");
}

void Container::add(const std::string &name, Record record, std::uint64_t header,
                    std::uint64_t end) {
  if (name.size() > kLargestName || !name.starts_with(kFolder) ||
      !is_known(std::string_view(name).substr(kFolder.size())))
    wrong_file("it has an unknown record");
  ByteReader local = fields(piece(*file_, header, kHeader));
  if (local.little(4) != kHeaderMark)
    wrong_file("a record in it does not begin");
  local.take(22);
  const std::uint64_t name_size = local.little(2);
  record.at = header + kHeader + name_size + local.little(2);
  if (record.at > end || record.stored > end - record.at)
    wrong_file("a record in it is larger than the file");
  if (!record.packed && record.stored != record.unpacked)
    wrong_file("a record in it has two sizes");
  if (record.packed && record.unpacked > kFreelyUnpacked + kUnpackedFactor * record.stored)
    wrong_file("a record in it unpacks to more than its size allows");
  if (!records_.emplace(name.substr(kFolder.size()), record).second)
    wrong_file("it has two records of one name");
}

const Container::Record &Container::record(const std::string &name) const {
  const auto found = records_.find(name);
  if (found == records_.end())
    wrong_file(fmt::format("it has no record '{}'", name));
  return found->second;
}

std::string Container::text(const std::string &name) const {
  const Record &of = record(name);
  const std::string_view stored = piece(*file_, of.at, of.stored);
  if (!of.packed)
    return std::string(stored);
  std::string result(of.unpacked, '\0');
  if (tinfl_decompress_mem_to_mem(result.data(), result.size(), stored.data(), stored.size(), 0) !=
      result.size())
    wrong_file(fmt::format("record '{}' can't be unpacked", name));
  return result;
}

std::string_view Container::bytes(const std::string &name) const {
  const Record &of = record(name);
  if (of.packed)
    wrong_file(fmt::format("record '{}' is packed, which it never is", name));
  return piece(*file_, of.at, of.stored);
}

std::pair<c10::DataPtr, std::size_t> Container::data(const std::string &name) const {
  const std::string_view all = bytes(name);
  void *begin = const_cast<char *>(all.data()); // memory of the process, for this file alone
  if (reinterpret_cast<std::uintptr_t>(begin) % c10::gAlignment != 0)
    wrong_file(fmt::format("record '{}' is not aligned", name));
  auto keeps = std::make_unique<std::shared_ptr<const OpenFile>>(file_);
  return {c10::DataPtr(
              begin, keeps.release(),
              [](void *file) { delete static_cast<std::shared_ptr<const OpenFile> *>(file); },
              at::kCPU),
          all.size()};
}

} // namespace tracehost::archive
