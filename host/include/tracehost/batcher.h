#pragma once

#include "tracehost/function.h"

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <utility>
#include <vector>

/// Calls of many threads, run as one.
///
///     tracehost::Batcher batched(predict, 32, std::chrono::milliseconds(2));
///     at::Tensor y = batched(x);          // x: [n, ...], from any thread; waits for its result
///
/// Requests are joined along dimension 0 of their tensors, run once, and the result is split again.
/// For functions that treat each row by itself, with graphs for any number of rows
/// (TensorSpec([None, 64])). The first request of a batch waits at most `max_delay` for others.
/// Requests are joined where all else of them is equal: other sizes, dtypes, values; tensors
/// without dimensions are not joined but compared by identity. Where a batch fails, or its result
/// can't be split, its requests run one by one: an exception goes to the request that causes it.
/// A request throws Overloaded where `max_waiting` wait: memory stays bounded if calls come faster
/// than they run.

namespace tracehost {
inline namespace TRACEHOST_ABI {

class TRACEHOST_API Batcher {
public:
  /// At most `max_batch` rows a run, unless one request has more.
  /// `max_delay`: a day at most.
  Batcher(Function function, std::size_t max_batch, std::chrono::microseconds max_delay,
          std::size_t max_waiting = 10'000);
  /// Runs what waits, and ends.
  ~Batcher();
  Batcher(const Batcher &) = delete;
  Batcher &operator=(const Batcher &) = delete;

  template <class... A> Value operator()(A &&...arguments) {
    return async(std::forward<A>(arguments)...).get();
  }
  template <class... A> std::future<Value> async(A &&...arguments) {
    return submit(detail::collected(std::forward<A>(arguments)...));
  }
  /// Throws Overloaded. What the call throws, the future throws.
  std::future<Value> submit(std::vector<Argument> arguments);

  struct Counts {
    std::size_t requests = 0, runs = 0, rows = 0;
  };
  Counts counts() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace TRACEHOST_ABI
} // namespace tracehost
