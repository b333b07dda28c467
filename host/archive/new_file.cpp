#include "archive/new_file.h"

#include "archive/error.h"
#include "archive/file_path.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h> // NOLINT(modernize-deprecated-headers): sigtimedwait
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

namespace tracehost::archive {
namespace {

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
      throw Error(fmt::format(
          "{} can't be written: it is a link to a file that does not exist ({})", path, reason()));
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

NewFile::NewFile(const std::string &path) : given_(path), path_(target_of(path)) {
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
    hash_.add(start, size);
    write_all(descriptor_, start, size, given_);
  };
  if (count >= kZipEnd) { // large: not by way of the tail
    flush(tail_.data(), tail_.size());
    flush(from, count - kZipEnd);
    tail_.assign(from + (count - kZipEnd), from + count);
    return;
  }
  tail_.insert(tail_.end(), from, from + count);
  if (tail_.size() <= kZipEnd)
    return;
  const std::size_t ready = tail_.size() - kZipEnd;
  flush(tail_.data(), ready);
  tail_.erase(tail_.begin(), tail_.begin() + static_cast<std::ptrdiff_t>(ready));
}

std::string NewFile::hash() const { return hash_.digits(); }

void NewFile::complete() {
  tail_[kZipEnd - 2] = static_cast<char>(kComment);
  tail_[kZipEnd - 1] = 0;
  tail_.insert(tail_.end(), kMark.begin(), kMark.end());
  hash_.add(tail_.data(), tail_.size());
  const std::string digits = hash_.digits();
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

} // namespace tracehost::archive
