#include "archive/archive.h"
#include "embed/python.h"
#include "program/interruption.h"
#include "runtime/ending.h"
#include "runtime/loaded.h"
#include "runtime/log.h"
#include "tracehost/embed.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

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
  void on(const GraphEvent &) override {}
};

Sink &silent() {
  static auto *only = new Silent;
  return *only;
}

/// What Python has, as a function that was read from an archive has it, but without a file. Shares
/// the Programs and the captures.
archive::Entry entry_of(archive::SourceFunction function) {
  archive::Entry entry{
      function.name, std::move(function.parameters), std::move(function.defaults), {}};
  for (archive::Source &source : function.specializations) {
    auto state = std::make_shared<archive::State>();
    for (const CaptureSpec &capture : source.signature.captures)
      state->attributes.push_back(capture.path);
    state->captures = std::move(source.captures);
    state->outputs = std::move(source.output_metas);
    auto made = std::make_shared<Specialization>();
    made->program = std::move(source.program);
    made->signature = std::move(source.signature);
    made->outputs = std::move(source.outputs);
    made->front_end = std::move(state);
    made->number = entry.specializations.size() + 1;
    made->bytes = estimated_bytes(*made);
    entry.specializations.push_back(std::move(made));
  }
  return entry;
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
    return of_known(&runtime::Loaded::signatures);
  }
  std::vector<GraphSpec> graphs() const override { return of_known(&runtime::Loaded::graphs); }
  std::vector<Parameter> parameters() const override {
    return of_known(&runtime::Loaded::parameters);
  }
  Stats stats() const override {
    return {.hits = hits_.load(std::memory_order_relaxed),
            .misses = asked_.load(std::memory_order_relaxed),
            .traces = counters_->traces.load(std::memory_order_relaxed),
            .specializations = of_known(&runtime::Loaded::stats).specializations,
            .failures = counters_->failed.load(std::memory_order_relaxed)};
  }

private:
  /// Nothing while no graph can run without Python.
  template <class Result> Result of_known(Result (runtime::Loaded::*ask)() const) const {
    const auto known = known_.load(std::memory_order_acquire);
    return known ? ((*known).*ask)() : Result();
  }

  Value ask(std::span<const Argument> arguments, bool inference) {
    const InPython in; // waits
    Interruptible::check_before();
    asked_.fetch_add(1, std::memory_order_relaxed);
    Value result;
    {
      std::optional<c10::InferenceMode> mode;
      if (inference)
        mode.emplace();
      result = callee_->call(arguments);
    }
    if (callee_->state() != seen_.load(std::memory_order_relaxed)) {
      learn();
      if (runtime::logs())
        runtime::log(LogLevel::info, name_,
                     fmt::format("{}: traced, {} traces so far", name_,
                                 counters_->traces.load(std::memory_order_relaxed)));
    }
    return result;
  }

  /// Requires: GIL held.
  void learn() {
    const std::uint64_t state = callee_->state();
    archive::SourceFunction sources = callee_->sources();
    std::shared_ptr<runtime::Loaded> made;
    if (!sources.specializations.empty())
      made = std::make_shared<runtime::Loaded>(entry_of(std::move(sources)), counters_, silent());
    known_.store(std::move(made), std::memory_order_release);
    seen_.store(state, std::memory_order_relaxed);
    runtime::watch_exit(); // a trace makes statics
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
