#pragma once

#include "tracehost/spec.h"
#include "tracehost/value.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

/// What is called.
///
///     tracehost::Function predict = archive["predict"];
///     at::Tensor y = predict(x, 3);
///     at::Tensor z = predict(x, kw("top", 3));
///     auto [h, c] = cell.call<std::tuple<at::Tensor, at::Tensor>>(x);

namespace tracehost {

struct RunLimits; // program/interruption.h

inline namespace TRACEHOST_ABI {

/// An argument, with its parameter's name if it is passed by that.
struct Argument {
  std::string name;
  Value value;

  template <class T>
  requires(std::constructible_from<Value, T> && !std::same_as<std::remove_cvref_t<T>, Argument>)
      Argument(T &&given)
      : value(std::forward<T>(given)) {}
  Argument(std::string keyword, Value given) : name(std::move(keyword)), value(std::move(given)) {}
};

/// An argument by name, as Python's `f(scale=2.0)`. Throws Error for an empty name.
TRACEHOST_API Argument kw(std::string name, Value value);

struct Stats {
  std::uint64_t hits = 0;   ///< calls that a graph served to their end
  std::uint64_t misses = 0; ///< calls that none did: of an archive's function, a SignatureError
                            ///< each; of Python's, Python was asked
  std::uint64_t traces = 0; ///< made in this process
  std::size_t specializations = 0; ///< graphs
  std::uint64_t failures = 0;      ///< calls whose graph threw
};

/// Ends the calls under way, on all threads, where they run graphs: between two ops, with the
/// effects of earlier ops. The calls throw Interrupted; the Functions stay as they are. A body that
/// Python runs continues to its end, or to the next graph. Safe in a signal's handler:
///
///     std::signal(SIGINT, [](int) { tracehost::interrupt(); });
TRACEHOST_API void interrupt() noexcept;

namespace detail {
template <class... A> std::vector<Argument> collected(A &&...arguments) {
  std::vector<Argument> result;
  result.reserve(sizeof...(A));
  (result.emplace_back(std::forward<A>(arguments)), ...);
  return result;
}

class Callable;
/// Runs `task` on libtorch's inter-op threads.
TRACEHOST_API void launch(std::function<void()> task);
} // namespace detail

/// A function of an archive, or of Python: a handle, cheap to copy. All of its functions may be
/// called from any thread at any time.
///
/// A call takes what a Python call takes, by Python's rules: arguments are bound to parameters by
/// place or name, with defaults. Tensors are compared by dtype, sizes, device and by which of them
/// are the same. Other values are compared by type and value (`true`, `1` and `1.0` differ). Of the
/// graphs that serve a call the most specific runs.
class TRACEHOST_API Function {
public:
  Function() = default;
  explicit Function(std::shared_ptr<detail::Callable> callable) : callable_(std::move(callable)) {}
  explicit operator bool() const { return callable_ != nullptr; }

  template <class... A> Value operator()(A &&...arguments) const {
    return call<Value>(std::forward<A>(arguments)...);
  }
  /// The same, with the result as a C++ type: see Value::to().
  template <class Result, class... A> Result call(A &&...arguments) const {
    if constexpr (sizeof...(A) == 0) {
      return run({}).template to<Result>();
    } else {
      const Argument given[] = {Argument(std::forward<A>(arguments))...};
      if constexpr (std::same_as<Result, Value>)
        return run(given);
      else
        return run(given).template to<Result>();
    }
  }
  /// The same, on one of libtorch's inter-op threads (at::set_num_interop_threads).
  template <class Result = Value, class... A> std::future<Result> async(A &&...arguments) const;
  /// The same with arguments that were collected at run time.
  Value run(std::span<const Argument> arguments) const;

  /// Returns a handle whose calls run in InferenceMode if `on`, which is the default of a handle.
  /// Else they run in the modes of the calling thread, and results can have gradients.
  Function with_inference_mode(bool on) const;

  /// Returns a handle whose calls end where `stop` is asked for a stop, on any thread: as by
  /// interrupt(), but these calls alone. A call that begins later does not run.
  ///
  ///     std::stop_source gone; // of one request; gone.request_stop() when its client leaves
  ///     predict.with_stop(gone.get_token())(x); // throws Interrupted then, code() is `stopped`
  Function with_stop(std::stop_token stop) const;
  /// The same where `deadline` has passed, which is looked at between two ops. An op that runs and
  /// a body that Python runs are waited for.
  Function with_deadline(std::chrono::steady_clock::time_point deadline) const;

  /// One call with zeros for each of these, so that the first real one finds all in place:
  /// `f.warm_up({"f32[1,128]", "f32[8,128], i64[]"})`. Without any: a call for each graph whose
  /// sizes are known.
  void warm_up(const std::vector<std::string> &signatures = {}) const;

  /// Of a function of Python: reads again what its graphs depend on besides arguments, and drops
  /// those that are of something else now. Waits for Python's lock. Nothing for others.
  void refresh() const;

  const std::string &name() const;
  /// Of each graph, most specific first: `(x: float32[None, 64], top=3)`.
  std::vector<std::string> signatures() const;
  /// The same as data: what each graph takes, one Spec for each parameter, and gives.
  std::vector<GraphSpec> graphs() const;
  /// Of a function of Python: none before its first graph.
  std::vector<Parameter> parameters() const;
  Stats stats() const;

  const std::shared_ptr<detail::Callable> &callable() const { return callable_; }

private:
  std::shared_ptr<detail::Callable> callable_;
  std::shared_ptr<const RunLimits> limits_; ///< null: none
  bool inference_ = true;
};

template <class Result, class... A> std::future<Result> Function::async(A &&...arguments) const {
  auto given = detail::collected(std::forward<A>(arguments)...);
  auto promise = std::make_shared<std::promise<Result>>();
  auto result = promise->get_future();
  detail::launch([self = *this, promise = std::move(promise), given = std::move(given)] {
    try {
      promise->set_value(self.run(given).template to<Result>());
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  return result;
}

} // namespace TRACEHOST_ABI
} // namespace tracehost
