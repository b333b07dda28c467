#include "tracehost/batcher.h"

#include "runtime/log.h"
#include "runtime/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace tracehost {
inline namespace TRACEHOST_ABI {

using Clock = std::chrono::steady_clock;

struct Batcher::State {
  struct Request {
    std::vector<Argument> arguments;
    std::optional<std::int64_t> rows; ///< nullopt: it runs by itself
    Clock::time_point due;
    std::promise<Value> result;
  };
  using Batch = std::vector<Request>;

  void work();
  /// The requests that can be run with the first, in order. `full`: no other one can. Requires:
  /// `mutex`, a queue.
  std::vector<std::size_t> fitting(bool &full) const;
  void run(Batch batch);
  void count(std::int64_t rows);
  bool run_joined(Batch &batch);
  void run_alone(Request &request);

  Function function;
  std::int64_t max_batch = 1;
  std::chrono::microseconds max_delay{};
  std::size_t max_waiting = 1;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Request> queue;
  Counts counts;
  bool ends = false;
  std::thread thread;
};

std::vector<std::size_t> Batcher::State::fitting(bool &full) const {
  std::vector<std::size_t> chosen{0};
  const Request &first = queue.front();
  full = true;
  if (!first.rows)
    return chosen;
  std::int64_t rows = *first.rows;
  for (std::size_t i = 1; i < queue.size() && rows < max_batch; ++i) {
    const Request &other = queue[i];
    if (!other.rows || rows + *other.rows > max_batch ||
        !runtime::can_join(first.arguments, other.arguments))
      continue;
    rows += *other.rows;
    chosen.push_back(i);
  }
  full = rows >= max_batch;
  return chosen;
}

void Batcher::State::work() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ends || !queue.empty(); });
    if (queue.empty())
      return;
    const auto due = queue.front().due;
    std::vector<std::size_t> chosen;
    changed.wait_until(lock, due, [&] {
      bool full = false;
      chosen = fitting(full);
      return ends || full;
    });
    Batch batch;
    for (const std::size_t i : chosen)
      batch.push_back(std::move(queue[i]));
    for (auto i = chosen.rbegin(); i != chosen.rend(); ++i)
      queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(*i));
    lock.unlock();
    run(std::move(batch));
    lock.lock();
  }
}

void Batcher::State::run(Batch batch) {
  if (batch.size() > 1 && run_joined(batch))
    return;
  for (Request &request : batch)
    run_alone(request);
}

/// False: one by one.
bool Batcher::State::run_joined(Batch &batch) {
  std::vector<const runtime::Arguments *> requests;
  std::int64_t total = 0;
  for (const Request &request : batch) {
    requests.push_back(&request.arguments);
    total += *request.rows;
  }
  std::vector<Value> parts;
  try {
    const Value result = function.run(runtime::joined(requests));
    std::int64_t start = 0;
    for (const Request &request : batch) {
      auto part = runtime::rows(result, start, *request.rows, total);
      if (!part)
        return false;
      parts.push_back(std::move(*part));
      start += *request.rows;
    }
  } catch (const std::exception &e) {
    runtime::log(LogLevel::warning, function.name(),
                 fmt::format("{}: a batch of {} requests failed, they run one by one: {}",
                             function.name(), batch.size(), e.what()));
    return false;
  }
  count(total);
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i].result.set_value(std::move(parts[i]));
  return true;
}

void Batcher::State::count(std::int64_t rows) {
  const std::lock_guard lock(mutex);
  counts.runs += 1;
  counts.rows += static_cast<std::size_t>(rows);
}

void Batcher::State::run_alone(Request &request) {
  count(request.rows.value_or(0));
  try {
    request.result.set_value(function.run(request.arguments));
  } catch (...) {
    request.result.set_exception(std::current_exception());
  }
}

Batcher::Batcher(Function function, std::size_t max_batch, std::chrono::microseconds max_delay,
                 std::size_t max_waiting)
    : state_(std::make_unique<State>()) {
  state_->function = std::move(function);
  state_->max_batch = static_cast<std::int64_t>(std::max<std::size_t>(max_batch, 1));
  // Longer ones would pass the end of the clock.
  state_->max_delay = std::min<std::chrono::microseconds>(max_delay, std::chrono::hours(24));
  state_->max_waiting = std::max<std::size_t>(max_waiting, 1);
  state_->thread = std::thread([state = state_.get()] { state->work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ends = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

std::future<Value> Batcher::submit(std::vector<Argument> arguments) {
  State::Request request;
  request.arguments = std::move(arguments);
  request.rows = runtime::rows_of(request.arguments);
  request.due = Clock::now() + state_->max_delay;
  auto result = request.result.get_future();
  {
    const std::lock_guard lock(state_->mutex);
    if (const std::size_t waiting = state_->queue.size(); waiting >= state_->max_waiting)
      throw Overloaded(
          fmt::format("{}: {} requests wait already, and max_waiting is {}. Call again "
                      "later, on another Batcher, or raise max_waiting.",
                      state_->function.name(), waiting, state_->max_waiting));
    state_->counts.requests += 1;
    state_->queue.push_back(std::move(request));
  }
  state_->changed.notify_all();
  return result;
}

Batcher::Counts Batcher::counts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counts;
}

} // namespace TRACEHOST_ABI
} // namespace tracehost
