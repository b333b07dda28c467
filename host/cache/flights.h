#pragma once

#include "signature/signature.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <unistd.h>

namespace tracehost {

/// Single flight: of the threads that miss with one signature, one traces and the others wait.
///
/// Signatures are compared outside the lock (a user's `__eq__` may run), so joining is optimistic:
/// look at the flights, compare, and board only if none has started or ended since.
class Flights {
public:
  struct Flight {
    Signature signature;
    std::thread::id owner = std::this_thread::get_id();
    pid_t process = getpid();
    bool landed = false; ///< under Flights' lock
  };
  using Ref = std::shared_ptr<Flight>;

  /// The flights under way, and a number that moves with every start and end. A process that has
  /// been forked forgets those that it inherits: their threads are in its parent.
  std::vector<Ref> under_way(std::uint64_t &version);
  /// Starts a flight if nothing started or ended since `version`; null otherwise.
  Ref board(const Signature &signature, std::uint64_t version);
  /// Ends it, however it went; wakes the waiters. Its result, if any, is published before.
  void land(const Ref &flight);
  /// Waits until `flight` has landed. Requires: no lock held, GIL not held.
  void wait(const Ref &flight);

private:
  std::mutex mutex_;
  std::condition_variable landed_;
  std::vector<Ref> flights_;
  std::uint64_t version_ = 0;
};

} // namespace tracehost
