#include "runtime/ending.h"

#include "tracehost/error.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <unistd.h>

namespace tracehost::runtime {

namespace {

constexpr auto kPatience = std::chrono::seconds(10); ///< for calls under way
constexpr auto kLook = std::chrono::milliseconds(1);
/// How long a parked thread sleeps after the calls under way have ended. The process ends
/// meanwhile, or another thread waits for the parked thread, which then throws.
constexpr auto kParked = std::chrono::seconds(2);
constexpr int kMostRegistered = 2000; ///< exit() keeps a list of them

/// Whether it computes, by what the kernel says: between two calls it may make inputs.
bool is_running(::pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const auto name = text.rfind(')');
  return name != std::string::npos && name + 2 < text.size() && text[name + 2] == 'R';
}

const ::pid_t process = ::getpid(); ///< that has loaded the library

} // namespace

std::atomic<bool> Running::ending{false};

/// All threads that have called. Never destroyed: calls may come while the process ends.
struct Threads {
  using Thread = Running::Thread;
  std::mutex mutex;
  std::list<Thread> all, unused;

  Thread *join() {
    const std::lock_guard lock(mutex);
    if (unused.empty())
      unused.emplace_back();
    all.splice(all.begin(), unused, unused.begin());
    all.front().id = ::gettid();
    return &all.front();
  }
  void leave(Thread *thread) {
    const std::lock_guard lock(mutex);
    for (auto one = all.begin(); one != all.end(); ++one)
      if (&*one == thread)
        return unused.splice(unused.begin(), all, one);
  }
  bool any_active() {
    const std::lock_guard lock(mutex);
    const ::pid_t own = ::gettid();
    for (const Thread &thread : all)
      if (thread.id != own && !thread.parked && (thread.busy.load() || is_running(thread.id)))
        return true;
    return false;
  }

  static void end(int status);
};

namespace {

Threads &threads() {
  static auto *const only = new Threads;
  return *only;
}

std::atomic<::pid_t> last_thread{0};
std::atomic<bool> calls_have_ended{false};

std::atomic<void (*)(int)> exit_handler{&end_calls};

void at_exit(int status, void *) { exit_handler.load()(status); }

} // namespace

void Threads::end(int status) {
  last_thread = ::gettid();
  Running::ending = true;
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (int quiet = 0; quiet < 2; ++quiet) { // looked at twice: one may just have begun to compute
    while (threads().any_active()) {
      if (std::chrono::steady_clock::now() > until) { // a graph that does not end
        std::fflush(nullptr);
        ::_exit(status);
      }
      std::this_thread::sleep_for(kLook);
    }
    std::this_thread::sleep_for(kLook);
  }
  calls_have_ended = true;
}

void end_calls(int status) {
  static std::atomic<bool> done{false};
  if (process == ::getpid() && !done.exchange(true))
    Threads::end(status);
}

void watch_exit() {
  static std::atomic<int> registered{0};
  if (registered.fetch_add(1, std::memory_order_relaxed) < kMostRegistered)
    ::on_exit(&at_exit, nullptr);
}

void set_exit_handler(void (*handler)(int status)) { exit_handler = handler; }

Running::Thread *Running::mine() {
  thread_local Thread *own = nullptr; // these two outlive what follows
  thread_local bool left = false;
  struct Leave {
    ~Leave() {
      threads().leave(std::exchange(own, nullptr));
      left = true;
    }
  };
  if (!own && !left) [[unlikely]] {
    own = threads().join();
    thread_local const Leave at_its_end;
  }
  return own;
}

void wait_for_end() {
  if (last_thread.load() == ::gettid())
    return;
  while (!calls_have_ended)
    std::this_thread::sleep_for(kLook);
  std::this_thread::sleep_for(kParked);
}

/// Parks any thread but the one that ends the process, because destructors on that thread may call.
void Running::park() {
  if (last_thread.load() == ::gettid())
    return;
  thread_->parked = true;
  wait_for_end();
  thread_->calls = 0;
  thread_->busy = false;
  throw Error("the process is ending: no call can start any more. Join the threads that call "
              "before main() returns.");
}

} // namespace tracehost::runtime
