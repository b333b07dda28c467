#include "tape/arena.h"

#include "tape/tape.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <mutex>

namespace tracehost::tape {
namespace {

constexpr std::size_t kMostPlanned = std::size_t{256} << 20;
constexpr std::int64_t kIdle = 60'000; ///< milliseconds

struct Registry {
  std::mutex mutex; ///< taken before an arena's lock
  std::vector<Arena *> arenas;
  std::atomic<std::size_t> bytes{0};
};

/// Never destroyed: graphs of static objects may live longer than other static objects.
Registry *all = nullptr;
std::once_flag all_made;

void make_all() {
  all = new Registry;
  // A child has the locks as the thread that forks has them.
  const auto unlock = [] {
    for (Arena *arena : all->arenas)
      arena->unlock();
    all->mutex.unlock();
  };
  pthread_atfork(
      [] {
        all->mutex.lock();
        for (Arena *arena : all->arenas)
          arena->lock();
      },
      unlock, unlock);
}

Registry &registry() {
  std::call_once(all_made, make_all);
  return *all;
}

Arena *with_oldest(const std::vector<Arena *> &arenas) {
  Arena *found = nullptr;
  std::optional<std::int64_t> oldest;
  for (Arena *arena : arenas) {
    const std::scoped_lock lock(*arena);
    const auto one = arena->oldest();
    if (one && (!oldest || *one < *oldest)) {
      oldest = one;
      found = arena;
    }
  }
  return found;
}

} // namespace

Planned::Planned(std::size_t bytes) : bytes_(bytes) { registry().bytes += bytes; }
Planned::~Planned() { registry().bytes -= bytes_; }

Lease::Lease(std::unique_ptr<Tape> tape, std::unique_ptr<Planned> planned)
    : tape(std::move(tape)), planned(std::move(planned)), last_run(milliseconds()) {}
Lease::~Lease() = default;

Registered::Registered(Arena &arena) : arena_(arena) {
  const std::scoped_lock lock(registry().mutex);
  registry().arenas.push_back(&arena);
}

Registered::~Registered() {
  const std::scoped_lock lock(registry().mutex);
  std::erase(registry().arenas, &arena_);
}

/// A tape may own Python objects and tapes of blocks: they are destroyed behind the locks.
std::unique_ptr<Planned> make_room(std::size_t bytes) {
  Leases freed;
  Registry &all = registry();
  const std::scoped_lock lock(all.mutex);
  for (Arena *arena : all.arenas) {
    const std::scoped_lock locked(*arena);
    for (auto &idle : arena->take_idle(milliseconds() - kIdle))
      freed.push_back(std::move(idle));
  }
  for (auto &lease : freed)
    lease->planned.reset();
  while (all.bytes + bytes > kMostPlanned) {
    Arena *arena = with_oldest(all.arenas);
    if (!arena)
      return nullptr;
    const std::scoped_lock locked(*arena);
    if (!arena->oldest())
      continue; // it runs by now
    freed.push_back(arena->take_oldest());
    freed.back()->planned.reset();
  }
  return std::make_unique<Planned>(bytes);
}

std::size_t planned_bytes() { return registry().bytes; }

std::int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

} // namespace tracehost::tape
