#pragma once

#include <atomic>

#include <sys/types.h>

/// The end of the process while other threads call.
///
/// Problem: exit() destroys what libtorch and Python keep, one static after the other, under the
/// hands of threads that run graphs. Answer: before that, calls under way are waited for, and later
/// ones do not begin.
///
///     main thread   exit() ---- waits ----| statics are destroyed, the process is gone
///     another       a call -----| makes an input, calls: parked

namespace tracehost::runtime {

/// One call of this thread, while it lives. Throws Error where the process has been ending for some
/// seconds.
class Running {
public:
  Running() : thread_(mine()) {
    if (thread_ && thread_->calls++ == 0) {
      thread_->busy.exchange(true); // seen by the end, or sees it
      if (ending.load(std::memory_order_relaxed)) [[unlikely]]
        park();
    }
  }
  ~Running() {
    if (thread_ && --thread_->calls == 0)
      thread_->busy.store(false, std::memory_order_release);
  }
  Running(const Running &) = delete;
  Running &operator=(const Running &) = delete;

private:
  friend struct Threads;
  struct Thread {
    std::atomic<bool> busy{false}, parked{false};
    int calls = 0;  ///< nested; its thread's alone
    ::pid_t id = 0; ///< as in /proc
  };
  /// Null: the thread ends, or ends the process.
  static Thread *mine();
  void park();

  static std::atomic<bool> ending;
  Thread *const thread_;
};

/// exit() comes to end_calls() before it destroys the statics that have been made by now. To be
/// called where some may have been: libtorch makes many at their first use.
void watch_exit();
/// From now on exit() comes to `handler` in place of end_calls(); `handler` calls end_calls().
void set_exit_handler(void (*handler)(int status));

/// Parks calls, and waits until none is under way; at most some seconds, then the process ends at
/// once with `status`. Does nothing the second time, and in a fork.
void end_calls(int status);

/// Of a thread that has nothing to do any more: sleeps while the process ends, at most some
/// seconds. Returns at once on the thread that ends the process.
void wait_for_end();

} // namespace tracehost::runtime
