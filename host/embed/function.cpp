#include "archive/live.h"
#include "embed/python.h"
#include "runtime/loaded.h"
#include "tracehost/embed.h"

#include <c10/core/InferenceMode.h>

#include <atomic>
#include <optional>
#include <utility>

/// A Function of Python's, called from C++.
///
/// Fast path: the graphs that Python has made so far, as a function of an archive is called
/// (runtime/loaded.h): no Python object is touched. Slow path: Python is asked, and what it has
/// made meanwhile becomes the fast path.

namespace tracehost {
namespace embedding {
namespace {

/// Drops the events: the Function has already reported its traces.
class Silent final : public Sink {
  void created(std::shared_ptr<const Counters>) override {}
  void on(const TraceEvent &) override {}
  void on(const EvictEvent &) override {}
  void on(const FailEvent &) override {}
  void on(const MismatchEvent &) override {}
};

Sink &silent() {
  static auto *only = new Silent;
  return *only;
}

class Imported final : public detail::Callable {
public:
  explicit Imported(std::unique_ptr<PythonCallee> callee)
      : callee_(std::move(callee)), name_(callee_->name()), counters_(callee_->counters()) {}
  ~Imported() override { release(std::move(callee_)); }

  Value call(std::span<const Argument> arguments, bool inference) override {
    if (const auto known = known_.load(std::memory_order_acquire))
      if (auto result = known->served(arguments, inference)) {
        hits_.fetch_add(1, std::memory_order_relaxed);
        return std::move(*result);
      }
    return ask(arguments, inference);
  }

  void refresh() override {
    const InPython in;
    learn();
  }

  void warm_up(bool inference) override {
    if (const auto known = known_.load(std::memory_order_acquire))
      known->warm_up(inference);
  }
  const std::string &name() const override { return name_; }
  std::vector<std::string> signatures() const override {
    const auto known = known_.load(std::memory_order_acquire);
    return known ? known->signatures() : std::vector<std::string>();
  }
  std::vector<GraphSpec> graphs() const override {
    const auto known = known_.load(std::memory_order_acquire);
    return known ? known->graphs() : std::vector<GraphSpec>();
  }
  std::vector<Parameter> parameters() const override {
    const auto known = known_.load(std::memory_order_acquire);
    return known ? known->parameters() : std::vector<Parameter>();
  }
  Stats stats() const override {
    const auto known = known_.load(std::memory_order_acquire);
    return {.hits = hits_.load(std::memory_order_relaxed),
            .misses = asked_.load(std::memory_order_relaxed),
            .traces = counters_->traces.load(std::memory_order_relaxed),
            .specializations = known ? known->stats().specializations : 0,
            .failures = counters_->failed.load(std::memory_order_relaxed)};
  }

private:
  Value ask(std::span<const Argument> arguments, bool inference) {
    const InPython in;
    asked_.fetch_add(1, std::memory_order_relaxed);
    Value result;
    {
      std::optional<c10::InferenceMode> mode;
      if (inference)
        mode.emplace();
      result = callee_->call(arguments);
    }
    if (callee_->state() != seen_.load(std::memory_order_relaxed))
      learn();
    return result;
  }

  /// Requires: GIL held.
  void learn() {
    const std::uint64_t state = callee_->state();
    archive::SourceFunction sources = callee_->sources();
    std::shared_ptr<runtime::Loaded> made;
    if (!sources.specializations.empty())
      made =
          std::make_shared<runtime::Loaded>(archive::live(std::move(sources)), counters_, silent());
    known_.store(std::move(made), std::memory_order_release);
    seen_.store(state, std::memory_order_relaxed);
    watch_process();
  }

  std::unique_ptr<PythonCallee> callee_;
  const std::string name_;
  const std::shared_ptr<Counters> counters_;
  std::atomic<std::shared_ptr<runtime::Loaded>> known_; ///< null: none can run without Python
  std::atomic<std::uint64_t> seen_{0};                  ///< the callee's state that known_ is of
  std::atomic<std::uint64_t> hits_{0}, asked_{0};       ///< of this handle
};

} // namespace

std::shared_ptr<detail::Callable> imported(std::unique_ptr<PythonCallee> callee) {
  auto made = std::make_shared<Imported>(std::move(callee));
  made->refresh();
  return made;
}

} // namespace embedding

inline namespace TRACEHOST_ABI {
namespace embed {

Function import(const std::string &module, const std::string &name) {
  start();
  std::unique_ptr<embedding::PythonCallee> found;
  {
    const embedding::InPython in;
    found = in.bridge().find(module, name);
  }
  return Function(embedding::imported(std::move(found)));
}

} // namespace embed
} // namespace TRACEHOST_ABI
} // namespace tracehost
