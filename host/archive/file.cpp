#include "archive/file.h"

#include "archive/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): sigtimedwait
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

namespace tracehost::archive {

/// XXH3 of 128 bits: finds damage, at the speed of memory. It is no signature.
class FileHash {
public:
  FileHash() : state_(XXH3_createState()) { XXH3_128bits_reset(state_); }
  ~FileHash() { XXH3_freeState(state_); }
  FileHash(const FileHash &) = delete;
  FileHash &operator=(const FileHash &) = delete;

  void add(const void *bytes, std::size_t count) { XXH3_128bits_update(state_, bytes, count); }
  std::string digits() const {
    const XXH128_hash_t found = XXH3_128bits_digest(state_);
    return fmt::format("{:016x}{:016x}", found.high64, found.low64);
  }

private:
  XXH3_state_t *state_;
};

namespace {

constexpr std::string_view kMark = "tracehost xxh3 ";
constexpr std::size_t kDigits = 32;
static_assert(kComment == kMark.size() + kDigits);
constexpr std::size_t kEnd = 22; ///< of a zip: its last record, without a comment
constexpr std::size_t kPiece = std::size_t{1} << 20;

std::string reason() { return std::strerror(errno); } // NOLINT(concurrency-mt-unsafe)

/// A signal ends the process where the limit on the size of files is met, unless it is blocked: the
/// write fails with EFBIG then.
class NoSizeSignal {
public:
  NoSizeSignal() {
    sigemptyset(&signal_);
    sigaddset(&signal_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 1)
      return; // the thread that blocked the signal waits for it
    const timespec now{};
    while (sigtimedwait(&signal_, nullptr, &now) == SIGXFSZ)
      ;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal &) = delete;
  NoSizeSignal &operator=(const NoSizeSignal &) = delete;

private:
  sigset_t signal_{}, before_{};
};

const char *kind_of(mode_t mode) {
  return S_ISDIR(mode)                    ? "a folder"
         : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
         : S_ISFIFO(mode)                 ? "a pipe"
         : S_ISSOCK(mode)                 ? "a socket"
                                          : "no regular file";
}

/// A system call would take the path for one that ends there.
void check_path(const std::string &path) {
  if (const auto nul = path.find('\0'); nul != std::string::npos)
    throw Error(fmt::format("{} is followed by a NUL byte, and no file's path has one",
                            path.substr(0, nul)));
}

/// Where to write: what a link leads to. Throws Error where something else than a file is there.
std::string target_of(const std::string &path) {
  check_path(path);
  struct stat about {};
  if (::lstat(path.c_str(), &about) != 0) {
    if (errno == ENOENT)
      return path;
    throw Error(fmt::format("{} can't be written: {}", path, reason()));
  }
  std::string target = path;
  if (S_ISLNK(about.st_mode)) {
    const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                           &std::free);
    if (!real || ::stat(real.get(), &about) != 0)
      throw Error(fmt::format("{} can't be written: it is a link to what is not there ({})", path,
                              reason()));
    target = real.get();
  }
  if (!S_ISREG(about.st_mode))
    throw Error(fmt::format("{} can't be written: it is {}", path, kind_of(about.st_mode)));
  return target;
}

std::string folder_of(const std::string &path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "./" : path.substr(0, slash + 1);
}

// A save that is killed leaves its unfinished file behind, which the next save in the folder
// removes. Its lock says that nobody writes to it: a lock ends with the process. A process id says
// nothing (in a container each process may be number 1).

constexpr std::string_view kNewPrefix = ".tracehost.", kNewSuffix = ".new";
constexpr std::size_t kNewDigits = 16;

std::string new_name() {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{}", kNewPrefix, random(), random(), kNewSuffix);
}

bool is_new_name(std::string_view name) {
  return name.size() == kNewPrefix.size() + kNewDigits + kNewSuffix.size() &&
         name.starts_with(kNewPrefix) && name.ends_with(kNewSuffix);
}

/// Locks the file that this process has made. False: another process took it for left behind, in
/// the moment before, and has closed the file.
bool hold(int &descriptor) {
  while (::flock(descriptor, LOCK_EX) != 0 && errno == EINTR)
    ; // another error: a file system without locks, on which nobody removes the file
  struct stat about {};
  if (::fstat(descriptor, &about) == 0 && about.st_nlink > 0)
    return true;
  ::close(std::exchange(descriptor, -1));
  return false;
}

void remove_left_behind(const std::string &folder) {
  std::error_code none;
  for (std::filesystem::directory_iterator entry(folder, none), end; !none && entry != end;
       entry.increment(none)) {
    const std::string name = entry->path().filename();
    if (!is_new_name(name))
      continue;
    const int found = ::open(entry->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (found < 0)
      continue;
    if (::flock(found, LOCK_EX | LOCK_NB) == 0)
      ::unlink(entry->path().c_str());
    ::close(found);
  }
}

void write_all(int descriptor, const char *bytes, std::size_t count, const std::string &path) {
  const NoSizeSignal blocked;
  while (count > 0) {
    const ssize_t done = ::write(descriptor, bytes, count);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      throw Error(fmt::format("{} can't be written: {}", path, reason()));
    bytes += done;
    count -= static_cast<std::size_t>(done);
  }
}

} // namespace

NewFile::NewFile(const std::string &path)
    : given_(path), path_(target_of(path)), hash_(std::make_unique<FileHash>()) {
  remove_left_behind(folder_of(path_));
  do {
    beside_ = folder_of(path_) + new_name();
    descriptor_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST)
      throw Error(fmt::format("{} can't be written: {}", path, reason()));
  } while (descriptor_ < 0 || !hold(descriptor_));
}

NewFile::~NewFile() {
  if (descriptor_ < 0)
    return;
  ::close(descriptor_);
  ::unlink(beside_.c_str());
}

void NewFile::append(const void *bytes, std::size_t count) {
  const char *from = static_cast<const char *>(bytes);
  const auto flush = [&](const char *start, std::size_t size) {
    hash_->add(start, size);
    write_all(descriptor_, start, size, given_);
  };
  if (count >= kEnd) { // large: not by way of the tail
    flush(tail_.data(), tail_.size());
    flush(from, count - kEnd);
    tail_.assign(from + (count - kEnd), from + count);
    return;
  }
  tail_.insert(tail_.end(), from, from + count);
  if (tail_.size() <= kEnd)
    return;
  const std::size_t ready = tail_.size() - kEnd;
  flush(tail_.data(), ready);
  tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(ready));
}

std::string NewFile::hash() const { return hash_->digits(); }

void NewFile::complete() {
  tail_[kEnd - 2] = static_cast<char>(kComment);
  tail_[kEnd - 1] = 0;
  tail_.insert(tail_.end(), kMark.begin(), kMark.end());
  hash_->add(tail_.data(), tail_.size());
  const std::string digits = hash_->digits();
  tail_.insert(tail_.end(), digits.begin(), digits.end());
  write_all(descriptor_, tail_.data(), tail_.size(), given_);
  if (::fsync(descriptor_) != 0)
    throw Error(fmt::format("{} can't be written: {}", given_, reason()));
}

void NewFile::publish() {
  if (::rename(beside_.c_str(), path_.c_str()) != 0)
    throw Error(fmt::format("{} can't be written: {}", given_, reason()));
  ::close(std::exchange(descriptor_, -1));
  // The new name, too.
  if (const int of = ::open(folder_of(path_).c_str(), O_RDONLY | O_CLOEXEC); of >= 0) {
    ::fsync(of);
    ::close(of);
  }
}

OpenFile::OpenFile(const std::string &path) {
  check_path(path);
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat about {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &about) != 0)
    throw Error(fmt::format("{} can't be read: {}", path, reason()));
  try {
    if (!S_ISREG(about.st_mode))
      throw Error(fmt::format("{} is no file: it is {}", path, kind_of(about.st_mode)));
    size_ = static_cast<std::size_t>(about.st_size);
    verify(path);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

OpenFile::OpenFile(const std::string &name, std::string bytes)
    : bytes_(std::move(bytes)), size_(bytes_.size()) {
  verify(name);
}

OpenFile::~OpenFile() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

std::size_t OpenFile::read(std::uint64_t at, void *into, std::size_t count) const {
  if (descriptor_ < 0) {
    const std::size_t from = std::min<std::size_t>(at, size_), got = std::min(count, size_ - from);
    std::copy_n(bytes_.data() + from, got, static_cast<char *>(into));
    return got;
  }
  std::size_t done = 0;
  while (done < count) {
    const ssize_t got = ::pread(descriptor_, static_cast<char *>(into) + done, count - done,
                                static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void OpenFile::verify(const std::string &path) {
  std::array<char, 4> begin{};
  read(0, begin.data(), begin.size());
  if (std::string_view(begin.data(), begin.size()) != "PK\x03\x04")
    throw Error(fmt::format("{} is no tracehost archive: {}", path,
                            size_ == 0 ? "it is empty" : "it is no zip file"));
  std::string comment(kComment, '\0');
  if (size_ < kEnd + kComment || read(size_ - kComment, comment.data(), kComment) != kComment ||
      !comment.starts_with(kMark))
    throw Error(
        fmt::format("{} is no tracehost archive, or it is cut off: it does not end as one", path));
  FileHash hash;
  std::vector<char> piece(kPiece);
  const std::size_t end = size_ - kDigits;
  for (std::size_t at = 0; at < end;) {
    const std::size_t count = read(at, piece.data(), std::min(kPiece, end - at));
    if (count == 0)
      throw Error(fmt::format("{} can't be read: {}", path, reason()));
    hash.add(piece.data(), count);
    at += count;
  }
  hash_ = hash.digits();
  if (comment.substr(kMark.size()) != hash_)
    throw Error(
        fmt::format("{} is damaged: it is not what was written. Copy or save it again.", path));
}

} // namespace tracehost::archive
