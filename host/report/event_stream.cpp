#include "report/event_stream.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <utility>

namespace tracehost::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kOff = -1;      ///< open_events() was not called, or the file cannot be opened
constexpr int kUnopened = -2; ///< this child's file
constexpr int kOpening = -3;  ///< by another thread
std::atomic<int> descriptor{kOff};
std::atomic<dev_t> device{0}; ///< with `node`, the file: a program may close what it did not open
std::atomic<ino_t> node{0};
std::atomic<bool> is_cut{false};    ///< the last line was not written whole
std::string *stream_path = nullptr; ///< never destroyed: threads may write while the process ends

/// Remembers which file it is.
int checked(int made) {
  struct stat now = {};
  if (made >= 0 && ::fstat(made, &now) == 0) {
    device = now.st_dev;
    node = now.st_ino;
  }
  return made;
}

int opened(const std::string &path) {
  return checked(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666));
}

/// Whether the descriptor is still that of the file.
bool is_still(int given) {
  struct stat now = {};
  return ::fstat(given, &now) == 0 && now.st_dev == device && now.st_ino == node;
}

/// Runs in the child of a fork(), which has one thread.
void forget_parents_file() {
  if (descriptor.load() == kOff)
    return;
  if (descriptor.load() >= 0 && is_still(descriptor.load()))
    ::close(descriptor.load());
  descriptor = kUnopened;
}

/// The descriptor to write to; kOff: none.
int current() {
  for (;;) {
    int now = descriptor.load(std::memory_order_acquire);
    if (now != kUnopened && now != kOpening)
      return now;
    if (now == kUnopened && descriptor.compare_exchange_strong(now, kOpening)) {
      const int made = opened(*stream_path + "." + std::to_string(::getpid()));
      descriptor.store(made < 0 ? kOff : made, std::memory_order_release);
      return made < 0 ? kOff : made;
    }
    std::this_thread::yield();
  }
}

Json json_of(const Site &site) {
  if (site.file.empty())
    return nullptr;
  Json result = {{"file", site.file}, {"line", site.line}, {"text", text(site)}};
  return result;
}

} // namespace

std::string line_of(const HistoryEntry &entry) {
  using Kind = HistoryEntry::Kind;
  const Kind kind = entry.kind;
  const bool of_trace = kind == Kind::trace, of_graph = kind >= Kind::capture;
  Json line = {{"version", kEventVersion},
               {"time", entry.time},
               {"pid", ::getpid()},
               {"event", name(kind)},
               {"function", entry.name},
               {"site", entry.site},
               {"definition", json_of(entry.definition)}};
  if (!of_graph)
    line["call"] = json_of(entry.call);
  if (!entry.signature.empty())
    line["signature"] = entry.signature;
  if (!entry.lock.empty())
    line.update({{"lock", entry.lock}, {"object", entry.function}, {"qualified", entry.qualified}});
  if (of_trace)
    line.update({{"causes", entry.causes},
                 {"notes", entry.notes},
                 {"ms", static_cast<double>(entry.nanoseconds) / 1e6},
                 {"ops", entry.ops},
                 {"dynamic", entry.dynamic},
                 {"requested", entry.requested}});
  if (!entry.text.empty())
    line["text"] = entry.text;
  if (kind == Kind::evict || kind == Kind::mismatch)
    line["hits"] = entry.hits;
  if (kind == Kind::tape || kind == Kind::capture)
    line["ops"] = entry.ops;
  if (kind == Kind::tape || kind == Kind::capture || kind == Kind::drop)
    line["bytes"] = entry.bytes;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void open_events(const std::string &path, bool child) {
  if (path == "-") {
    descriptor = checked(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    return;
  }
  stream_path = new std::string(path);
  ::pthread_atfork(nullptr, nullptr, &forget_parents_file);
  if (child) {
    descriptor = kUnopened;
    return;
  }
  const int made = opened(path);
  if (made < 0)
    throw std::system_error(errno, std::generic_category(), path);
  descriptor = made;
}

bool writes_events() noexcept { return descriptor.load(std::memory_order_relaxed) != kOff; }

void write_event(std::string line) noexcept {
  const int error = errno;
  const int to = current();
  if (to == kOff)
    return;
  if (!is_still(to)) {
    descriptor = kOff;
    return;
  }
  try {
    line = (is_cut.exchange(false) ? "\n" : "") + std::move(line) + "\n";
  } catch (const std::bad_alloc &) {
    return;
  }
  ssize_t written = 0;
  do
    written = ::write(to, line.data(), line.size());
  while (written < 0 && errno == EINTR);
  is_cut = written >= 0 && static_cast<std::size_t>(written) < line.size();
  errno = error;
}

} // namespace tracehost::report
