#include "archive/open_file.h"

#include "archive/error.h"
#include "archive/file_hash.h"
#include "archive/file_path.h"
#include "archive/tree.h"

#include <c10/core/CPUAllocator.h>

#include <fmt/format.h>

#include <openssl/evp.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tracehost::archive {
namespace {

/// A regular file, open.
class Descriptor {
public:
  explicit Descriptor(const std::string &path) {
    check_path(path);
    number_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (number_ < 0)
      throw Error(fmt::format("{} can't be read: {}", path, reason()));
    struct stat about {};
    if (::fstat(number_, &about) != 0 || !S_ISREG(about.st_mode)) {
      ::close(number_);
      throw Error(fmt::format("{} is no file: it is {}", path, kind_of(about.st_mode)));
    }
    size_ = static_cast<std::size_t>(about.st_size);
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;

  int number() const { return number_; }
  std::size_t size() const { return size_; }

private:
  int number_ = -1;
  std::size_t size_ = 0;
};

c10::DataPtr memory_for(std::size_t size) { return c10::GetCPUAllocator()->allocate(size); }

/// Throws Error where it was made shorter meanwhile, too.
void read_all(const Descriptor &file, const std::string &path, char *into) {
  std::size_t done = 0;
  while (done < file.size()) {
    const ssize_t got =
        ::pread(file.number(), into + done, file.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      throw Error(fmt::format("{} can't be read: {}", path, reason()));
    if (got == 0)
      throw Error(fmt::format(
          "{} can't be read: it was truncated while it was open. Copy or save it again.", path));
    done += static_cast<std::size_t>(got);
  }
}

struct Mapping {
  void *begin;
  std::size_t size;
};

void unmap(void *context) {
  const std::unique_ptr<Mapping> mapping(static_cast<Mapping *>(context));
  ::munmap(mapping->begin, mapping->size);
}

} // namespace

OpenFile::OpenFile(const std::string &name, c10::DataPtr memory, std::size_t size)
    : memory_(std::move(memory)), size_(size) {
  const std::string_view all = bytes();
  if (!all.starts_with("PK\x03\x04"))
    throw Error(fmt::format("{} is not a tracehost archive: {}", name,
                            size_ == 0 ? "it is empty" : "it is not a zip file"));
  if (size_ < kZipEnd + kComment || !all.substr(size_ - kComment).starts_with(kMark))
    throw Error(fmt::format("{} is not a tracehost archive, or it is cut off: its end is missing. "
                            "Copy or save it again.",
                            name));
  FileHash hash;
  hash.add(all.data(), size_ - kDigits);
  hash_ = hash.digits();
  if (all.substr(size_ - kDigits) != hash_)
    throw Error(fmt::format(
        "{} is damaged: its bytes do not match its checksum. Copy or save it again.", name));
}

std::string OpenFile::sha256() const {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(memory_.get(), size_, digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw Error("OpenSSL has no SHA-256 here");
  return hex({reinterpret_cast<const char *>(digest.data()), size});
}

std::shared_ptr<const OpenFile> OpenFile::read(const std::string &path) {
  const Descriptor file(path);
  c10::DataPtr memory = memory_for(file.size());
  read_all(file, path, static_cast<char *>(memory.get()));
  return std::shared_ptr<const OpenFile>(new OpenFile(path, std::move(memory), file.size()));
}

std::shared_ptr<const OpenFile> OpenFile::map(const std::string &path) {
  const Descriptor file(path);
  void *begin = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (begin == MAP_FAILED) // NOLINT(performance-no-int-to-ptr): the system's own
    throw Error(fmt::format("{} can't be read: {}", path, reason()));
  c10::DataPtr memory(begin, new Mapping{begin, file.size()}, &unmap, at::kCPU);
  return std::shared_ptr<const OpenFile>(new OpenFile(path, std::move(memory), file.size()));
}

std::shared_ptr<const OpenFile> OpenFile::copy(const std::string &name, std::string_view bytes) {
  c10::DataPtr memory = memory_for(bytes.size());
  if (!bytes.empty())
    std::memcpy(memory.get(), bytes.data(), bytes.size());
  return std::shared_ptr<const OpenFile>(new OpenFile(name, std::move(memory), bytes.size()));
}

} // namespace tracehost::archive
