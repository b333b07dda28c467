#pragma once

#include "capture/captures.h"
#include "capture/device.h"
#include "capture/effects.h"
#include "capture/key.h"
#include "capture/pool.h"
#include "capture/results.h"
#include "capture/static_inputs.h"
#include "capture/training.h"

#include <ATen/core/stack.h>
#include <torch/csrc/jit/ir/ir.h>

#include <unistd.h>

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tracehost::capture {

namespace jit = torch::jit;

/// A graph, and how it is run without a capture.
struct Subject {
  const jit::Graph &graph;
  /// Consumes the inputs, leaves the outputs. `captured`: no signal may end the run.
  std::function<void(jit::Stack &, bool captured)> interpret;
  /// Of the last run on this thread. Null: it is not known.
  Failure (*take_failure)() = nullptr;
  void (*complete_places)(jit::Block &) = nullptr; ///< null: take_failure is null as well
  std::size_t arguments; ///< inputs past these are tensors that the body reaches
  bool draws;
  std::vector<bool> written; ///< inputs that an op writes to
  std::shared_ptr<Pools> pools;
  std::function<void(const GraphNews &)> listener; ///< empty: there is none

  /// Requires: no lock is held.
  void report(const std::vector<GraphNews> &news) const noexcept;
};

/// One graph for one key: its state, and its capture. captured_calls.cpp captures and compares.
///
///     warming --two calls--> capturing --compared--> ready --address moved--> capturing
///        any failure, or a difference -----------> not captured
class Entry {
public:
  Entry(const Subject &subject, GraphDevice &device, c10::ArrayRef<c10::IValue> inputs,
        std::size_t launches);
  ~Entry();
  Entry(const Entry &) = delete;
  Entry &operator=(const Entry &) = delete;

  const Key &key() const { return key_; }
  const Subject &subject() const { return subject_; }
  bool try_lock() { return !busy_.test_and_set(std::memory_order_acquire); }
  void unlock() { busy_.clear(std::memory_order_release); }

  /// Serves a call. False: the interpreter has to, and `stack` is as it was. Throws what
  /// interpret() throws. Requires: the lock.
  bool run(jit::Stack &stack);
  bool is_ready() const { return state_ == State::ready; }
  std::size_t launches() const { return launches_; } ///< ops that launch kernels
  /// Why there will be no capture; empty: there may be. Requires: the lock.
  const std::string &why_not() const { return why_not_; }
  /// What has happened to its captures. Requires: the lock.
  bool has_news() const { return !news_.empty(); }
  std::vector<GraphNews> take_news() { return std::exchange(news_, {}); }

private:
  enum class State : std::uint8_t { warming, capturing, ready, not_captured };

  using Values = c10::ArrayRef<c10::IValue>;
  bool serve(jit::Stack &stack, Values given);
  /// What ended a capture.
  struct Failed {
    std::string text;
    bool lacks_memory;
  };
  bool warm(jit::Stack &stack);
  void run_aside(jit::Stack &stack, Values given);
  bool make_step(Values inputs);
  bool capture(jit::Stack &stack, Values given);
  bool compare(jit::Stack &stack, Values given, const Effects &before);
  bool replay(jit::Stack &stack, Values given);
  void replay_for(Values given, jit::Stack &results, bool &started);
  bool is_stale(Values given);
  bool record(c10::Stream caller);
  bool is_warm() const;
  void accept();
  void abandon() noexcept;
  Failure failure_of_op() const;
  Failed failure(const std::exception &error) const;
  void reject(std::string why);
  void release(const std::string &why) noexcept;

  const Subject &subject_;
  GraphDevice &device_;
  const Key key_;
  const c10::Device where_;
  const c10::DeviceIndex index_;
  const bool has_gradients_; ///< it records or uses them: it becomes a TrainingStep
  std::atomic_flag busy_;
  State state_ = State::warming;
  int warm_runs_ = 0;
  std::vector<std::thread::id> warmed_by_; ///< each has its own handles of libraries
  std::uint64_t calls_ = 0;
  std::array<std::uint64_t, 3> moved_at_{}; ///< calls that captured again, a ring
  std::size_t moves_ = 0;
  std::string why_not_;

  std::size_t launches_;
  std::unique_ptr<TrainingStep> step_; ///< null: no gradients, or it still warms
  StaticInputs inputs_;                ///< gradients that the step reads behind the graph's
  Results results_;
  std::unique_ptr<Captured> captured_;
  std::shared_ptr<Pool> pool_; ///< null: there is no capture
  bool has_freed_ = false;     ///< unused memory, because a capture had too little
  bool counted_ = false;       ///< the capture has been reported
  std::vector<GraphNews> news_;
  const pid_t process_ = getpid();
  c10::Stream home_; ///< whose memory the static tensors are
  c10::Stream last_; ///< of the last replay
};

} // namespace tracehost::capture
