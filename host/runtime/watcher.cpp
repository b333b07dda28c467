#include "tracehost/watcher.h"

#include "runtime/callable.h"
#include "runtime/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

#include <sys/stat.h>

namespace tracehost {
inline namespace TRACEHOST_ABI {
namespace {

/// Identifies one version of a file: seconds, nanoseconds and size.
using FileStamp = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// nullopt: there is no file. Does not use std::filesystem, because torch 2.11 exports that of an
/// older compiler.
std::optional<FileStamp> stamp_of(const std::string &path) {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0)
    return std::nullopt;
  return FileStamp{about.st_mtim.tv_sec, about.st_mtim.tv_nsec, about.st_size};
}

/// Zeros may be nothing that a model takes: what it throws is no fault of the file.
void warm_up(const Archive &archive) {
  for (const std::string &name : archive.names())
    try {
      archive[name].warm_up();
    } catch (const std::exception &) {
      continue;
    }
}

} // namespace

struct Watcher::State {
  /// Longer ones would pass the end of the clock.
  static constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 365);

  State(std::string file, WatchOptions given)
      : path(std::move(file)), options(std::move(given)), seen(stamp_of(path)),
        current(std::make_shared<const Archive>(Archive::load(path, options.load))) {}

  std::shared_ptr<const Archive> in_force() const {
    const std::lock_guard lock(mutex);
    return current;
  }
  bool poll();
  void watch();

  const std::string path;
  const WatchOptions options;
  std::mutex polling;                  ///< one at a time
  std::atomic<std::thread::id> poller; ///< the thread that has `polling`
  std::optional<FileStamp> seen;       ///< of the file that was last looked into; under `polling`
  mutable std::mutex mutex;
  std::shared_ptr<const Archive> current; ///< under `mutex`; replaced, never changed
  std::condition_variable changed;
  bool ends = false; ///< under `mutex`
  std::thread thread;

private:
  bool look();
  std::shared_ptr<const Archive> load_aside() const;
  void report() const noexcept;
};

std::shared_ptr<const Archive> Watcher::State::load_aside() const {
  auto made = std::make_shared<const Archive>(Archive::load(path, options.load));
  for (const std::string &name : in_force()->names())
    if (!made->contains(name))
      throw ArchiveError(fmt::format("{}: the new file has no function '{}'", path, name));
  warm_up(*made);
  if (options.check)
    options.check(*made);
  return made;
}

/// The exception that is being handled. `on_error` has nobody to throw to.
void Watcher::State::report() const noexcept {
  try {
    const std::string message = runtime::text_of_exception();
    runtime::log(LogLevel::error, path, fmt::format("{}: not reloaded: {}", path, message));
    if (options.on_error)
      options.on_error(message);
  } catch (...) { // dropped
  }
}

bool Watcher::State::poll() {
  if (poller.load(std::memory_order_relaxed) == std::this_thread::get_id())
    return false; // a callback of the poll under way
  const std::lock_guard one(polling);
  poller.store(std::this_thread::get_id(), std::memory_order_relaxed);
  const bool taken = look();
  poller.store({}, std::memory_order_relaxed);
  return taken;
}

bool Watcher::State::look() {
  const auto now = stamp_of(path);
  if (!now || now == seen)
    return false;
  std::shared_ptr<const Archive> made;
  try {
    made = load_aside();
  } catch (...) {
    if (stamp_of(path) != now)
      return false; // it is being written: the next poll decides
    seen = now;
    report();
    return false;
  }
  seen = now;
  {
    const std::lock_guard lock(mutex);
    current.swap(made);
  }
  runtime::log(LogLevel::info, path, fmt::format("{}: reloaded, {}", path, in_force()->hash()));
  try {
    if (options.on_reload)
      options.on_reload(*in_force());
  } catch (...) {
    report();
  }
  return true; // the former archive ends here, outside of the lock
}

void Watcher::State::watch() {
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, std::min(options.interval, kLongest), [&] { return ends; })) {
    lock.unlock();
    poll();
    lock.lock();
  }
}

Watcher::Watcher(std::string path, WatchOptions options)
    : state_(std::make_shared<State>(std::move(path), std::move(options))) {
  warm_up(*state_->in_force());
  if (state_->options.interval.count() > 0)
    state_->thread = std::thread([state = state_] { state->watch(); });
}

Watcher::~Watcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  if (!state_->thread.joinable())
    return;
  if (state_->poller.load(std::memory_order_relaxed) == std::this_thread::get_id())
    state_->thread.detach(); // a callback destroys the Watcher: the thread ends behind it
  else
    state_->thread.join();
}

Archive Watcher::archive() const { return *state_->in_force(); }

bool Watcher::poll() {
  const auto kept = state_; // a callback may destroy the Watcher
  return kept->poll();
}

namespace {

/// A function that each call looks up by name in the current archive.
template <class State> class Followed final : public detail::Callable {
public:
  Followed(std::shared_ptr<const State> state, std::string name)
      : state_(std::move(state)), name_(std::move(name)) {}

  Value call(std::span<const Argument> arguments, bool inference) override {
    return now()->call(arguments, inference);
  }
  void warm_up(bool inference) override { now()->warm_up(inference); }
  const std::string &name() const override { return name_; }
  std::vector<std::string> signatures() const override { return now()->signatures(); }
  std::vector<GraphSpec> graphs() const override { return now()->graphs(); }
  std::vector<Parameter> parameters() const override { return now()->parameters(); }
  Stats stats() const override { return now()->stats(); }

private:
  std::shared_ptr<detail::Callable> now() const { return (*state_->in_force())[name_].callable(); }

  std::shared_ptr<const State> state_;
  std::string name_;
};

} // namespace

Function Watcher::operator[](const std::string &name) const {
  (void)(*state_->in_force())[name]; // throws where there is none
  return Function(std::make_shared<Followed<State>>(state_, name));
}

} // namespace TRACEHOST_ABI
} // namespace tracehost
