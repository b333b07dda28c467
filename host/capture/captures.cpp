#include "capture/captures.h"

#include "capture/eligible.h"
#include "capture/entry.h"
#include "capture/pool.h"
#include "capture/writes.h"
#include "tape/guards.h"
#include "tape/ops.h"
#include "tape/training.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/ir/constants.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

namespace tracehost::capture {
namespace {

constexpr std::size_t kMostKeys = 8; ///< at a time, of one graph
constexpr int kMostEntries = 32;     ///< of one graph: sizes that never come again cost no more

bool any_autograd(const jit::Block &block) {
  const auto nodes = block.nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const jit::Node *node) { return tape::is_autograd_op(*node); });
}

bool any_device_without_index(const jit::Block &block) {
  const auto nodes = block.nodes();
  return std::any_of(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    const auto value =
        node->kind() == c10::prim::Constant ? jit::toIValue(node->output()) : std::nullopt;
    return (value && value->isDevice() && !value->toDevice().has_index() &&
            !value->toDevice().is_cpu()) ||
           std::any_of(node->blocks().begin(), node->blocks().end(),
                       [](const jit::Block *inner) { return any_device_without_index(*inner); });
  });
}

Subject subject_of(const jit::Graph &graph, const Options &options) {
  return {graph,
          options.interpret,
          options.take_failure,
          options.complete_places,
          options.arguments,
          any_draws(*graph.block()),
          written_inputs(graph),
          options.pools ? options.pools : std::make_shared<Pools>(),
          options.report};
}

/// Reports what a call has led to when it has left the entry.
class NewsOfCall {
public:
  NewsOfCall(Entry &entry, std::unique_lock<Entry> &serving) : entry_(entry), serving_(serving) {}
  ~NewsOfCall() {
    if (!serving_ || !entry_.has_news()) [[likely]]
      return;
    const auto news = entry_.take_news();
    serving_.unlock();
    entry_.subject().report(news);
  }
  NewsOfCall(const NewsOfCall &) = delete;
  NewsOfCall &operator=(const NewsOfCall &) = delete;

private:
  Entry &entry_;
  std::unique_lock<Entry> &serving_;
};

} // namespace

struct Captures::Impl {
  Impl(const jit::Graph &graph, Options given)
      : graph(graph), options(std::move(given)), subject(subject_of(graph, options)),
        launches(count_launches(*graph.block())), has_autograd(any_autograd(*graph.block())),
        follows_current(any_device_without_index(*graph.block())) {}

  const jit::Graph &graph;
  const Options options;
  const Subject subject;
  const std::size_t launches;
  const bool has_autograd;    ///< a backward launches more than the graph says
  const bool follows_current; ///< an op is on the current device
  const pid_t process = getpid();
  std::atomic<bool> never{false}; ///< `why` says why

  mutable std::mutex mutex; ///< of what follows; not held while the graph runs
  GraphDevice *device = nullptr;
  std::vector<std::shared_ptr<Entry>> entries; ///< those that served last are the first
  int made = 0;
  std::string why;               ///< of all calls
  bool has_reported = false;     ///< `why`
  const char *passing = nullptr; ///< of the last call; null: none

  bool run(jit::Stack &stack);
  std::string describe() const;
  std::shared_ptr<Entry> find(c10::ArrayRef<c10::IValue> inputs, std::shared_ptr<Entry> &freed);
  const char *why_not_now(c10::ArrayRef<c10::IValue> inputs, const tape::Settings &now) const;
  std::string place_near(const jit::Node &node) const;
  bool is_possible(c10::ArrayRef<c10::IValue> inputs);
  void give_up(std::string reason) {
    why = std::move(reason);
    never.store(true, std::memory_order_relaxed);
  }
};

Captures::Captures(const jit::Graph &graph, Options options)
    : impl_(std::make_unique<Impl>(graph, std::move(options))) {}
Captures::~Captures() = default;

bool Captures::run(jit::Stack &stack) {
  return !impl_->never.load(std::memory_order_relaxed) && impl_->run(stack);
}

bool Captures::Impl::run(jit::Stack &stack) {
  if (process != getpid())
    return false;
  const auto inputs = jit::last(stack, graph.inputs().size());
  std::shared_ptr<Entry> entry, freed; // destroyed without the lock
  std::string given_up;
  {
    const std::unique_lock locked(mutex, std::try_to_lock);
    if (!locked) // another thread looks for its entry
      return false;
    entry = find(inputs, freed);
    if (!entry && !why.empty() && !std::exchange(has_reported, true))
      given_up = why;
  }
  if (!given_up.empty())
    subject.report({{GraphNews::What::rejected, std::move(given_up), launches, 0}});
  if (!entry)
    return false;
  std::unique_lock serving(*entry, std::try_to_lock);
  const NewsOfCall news(*entry, serving);
  return serving && entry->run(stack);
}

/// Of the node. A node that stages an `if` has none: then of what it reads.
std::string Captures::Impl::place_near(const jit::Node &node) const {
  if (!options.place_of)
    return {};
  std::string place = options.place_of(node);
  if (place.empty() && !node.inputs().empty())
    place = options.place_of(*node.input(0)->node());
  return place;
}

/// Whether the graph can be captured at all. Asked at the first call.
bool Captures::Impl::is_possible(c10::ArrayRef<c10::IValue> inputs) {
  if (device)
    return true;
  if (const auto reason = not_capturable(graph, inputs, device_of_inputs(inputs))) {
    const std::string place = reason->node ? place_near(*reason->node) : std::string();
    give_up(reason->what + (place.empty() ? place : " at " + place));
  } else if (launches < options.least_launches && !has_autograd) {
    give_up(c10::str("it launches ", launches, " ops, and a CUDA graph pays from ",
                     options.least_launches, " on"));
  } else if (std::string none; !(device = options.find_device(none))) {
    give_up(std::move(none));
  } else if (const auto type = device_of_inputs(inputs).type(); type != device->type()) {
    device = nullptr;
    give_up(c10::str("no graphs on ", type));
  }
  return device != nullptr;
}

/// Why a call is not captured, though another one may be.
const char *Captures::Impl::why_not_now(c10::ArrayRef<c10::IValue> inputs,
                                        const tape::Settings &now) const {
  static_assert(kMostEntries == 32);
  if (!now.are_plain())
    return "autocast, a profiler or a mode is on";
  if (!Key::is_possible(inputs))
    return "an input is no plain tensor";
  if (!device->has_pools())
    return "the device's caching allocator is disabled";
  const c10::Device where = device_of_inputs(inputs);
  if (follows_current && c10::impl::VirtualGuardImpl(where.type()).getDevice() != where)
    return "another device is the current one";
  if (device->is_capturing(where.index()))
    return "the caller captures";
  return nullptr;
}

std::shared_ptr<Entry> Captures::Impl::find(c10::ArrayRef<c10::IValue> inputs,
                                            std::shared_ptr<Entry> &freed) {
  if (never || !is_possible(inputs))
    return nullptr;
  const tape::Settings now = tape::Settings::now();
  if ((passing = why_not_now(inputs, now)))
    return nullptr;
  const LaunchSettings launch = LaunchSettings::now();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto &entry) {
    return entry->key().holds(inputs, now, launch);
  });
  if (found != entries.end()) {
    std::rotate(entries.begin(), found, found + 1);
    return entries.front();
  }
  if (made == kMostEntries) {
    passing = "calls had 32 sets of sizes";
    return nullptr;
  }
  if (entries.size() == kMostKeys) {
    freed = std::move(entries.back());
    entries.pop_back();
  }
  ++made;
  entries.insert(entries.begin(), std::make_shared<Entry>(subject, *device, inputs, launches));
  return entries.front();
}

std::string Captures::describe() const { return impl_->describe(); }

std::string Captures::Impl::describe() const {
  const std::scoped_lock locked(mutex);
  if (!why.empty())
    return "the interpreter: " + why;
  if (passing || entries.empty())
    return passing ? c10::str("the interpreter: ", passing) : "the interpreter";
  Entry &entry = *entries.front();
  const std::unique_lock serving(entry, std::try_to_lock);
  if (!serving || entry.is_ready()) // another thread's call is under way
    return c10::str("a CUDA graph (", entry.launches(), " ops)");
  return "the interpreter" + (entry.why_not().empty() ? "" : ": " + entry.why_not());
}

} // namespace tracehost::capture
