#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

/// The memory that all tapes of the process have planned: at most 256 MB.
///
/// The tapes that ran least recently make room for a new one, of any graph. A tape
/// that runs now is never freed. A fork finds no lock of these held by another thread.

namespace tracehost::tape {

class Tape;

/// Bytes that count among those of the process as long as the object lives.
class Planned {
public:
  explicit Planned(std::size_t bytes);
  Planned(const Planned &) = delete;
  Planned &operator=(const Planned &) = delete;
  ~Planned();

private:
  const std::size_t bytes_;
};

/// A tape that a thread may have for a run.
struct Lease {
  Lease(std::unique_ptr<Tape> tape, std::unique_ptr<Planned> planned);
  ~Lease();

  /// Requires: the arena's lock; else it may begin to run meanwhile.
  bool is_free() const { return !runs_now.load(std::memory_order_acquire); }

  std::unique_ptr<Tape> tape;
  std::unique_ptr<Planned> planned;
  std::atomic<bool> runs_now{false};
  // Of the thread that runs the tape, or has the arena's lock:
  std::int64_t last_run; ///< in milliseconds of the monotonic clock
  std::uint64_t runs = 0;
  std::uint64_t early = 0; ///< runs that ended early
};

using Leases = std::vector<std::unique_ptr<Lease>>;

/// The tapes of one graph, as the others of the process see them.
class Arena {
public:
  virtual void lock() = 0;
  virtual void unlock() = 0;
  /// When the one ran that ran least recently; none: all of them run now. Requires: locked.
  virtual std::optional<std::int64_t> oldest() const = 0;
  /// Requires: locked, and there is an oldest().
  virtual std::unique_ptr<Lease> take_oldest() = 0;
  /// Those that have not run since, but one for each set of sizes. Requires: locked.
  virtual Leases take_idle(std::int64_t since) = 0;

protected:
  Arena() = default;
  ~Arena() = default;
};

/// While the object lives, the arena's tapes may be freed for others. Any thread.
class Registered {
public:
  explicit Registered(Arena &arena);
  Registered(const Registered &) = delete;
  Registered &operator=(const Registered &) = delete;
  ~Registered();

private:
  Arena &arena_;
};

/// Frees tapes until there is room for one of so many bytes. Null: those that run now hold too
/// much. Requires: the thread has no arena locked.
std::unique_ptr<Planned> make_room(std::size_t bytes);

std::size_t planned_bytes(); ///< of the process

/// Of the monotonic clock, which moves every few milliseconds.
std::int64_t milliseconds();

} // namespace tracehost::tape
