#include "tape/tapes.h"

#include "tape/arena.h"
#include "tape/blocks.h"
#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/replaced_kernels.h"
#include "tape/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace tracehost::tape {
namespace {

constexpr std::size_t kMostSizes = 4;   ///< at a time, of one graph
constexpr std::size_t kMostCopies = 16; ///< for threads, of one set of sizes
constexpr int kMostRecordings = 16;     ///< of one graph: sizes that never come again cost no more
/// A recording takes about as long as five calls. Many sizes come twice, fewer five times.
constexpr std::ptrdiff_t kManyOps = 200;
constexpr int kCalls = 2, kCallsOfManyOps = 5;
constexpr std::uint64_t kMostEarly = 8; ///< so many runs may end early at first, then one in four

bool ends_too_often(const Lease &lease) {
  return lease.early >= kMostEarly && lease.early * 4 > lease.runs;
}

int calls_before(const jit::Graph &graph) {
  const auto nodes = graph.nodes();
  const auto ops = std::count_if(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    return node->kind() != c10::prim::Constant;
  });
  return ops > kManyOps ? kCallsOfManyOps : kCalls;
}

std::string text_of(const Tape &tape) {
  std::string text = "a tape";
  if (tape.regions() > 0)
    text += fmt::format(" + {} region{}", tape.regions(), tape.regions() == 1 ? "" : "s");
  return text + fmt::format(" ({} of {} ops)", tape.kernels(), tape.ops());
}

GraphNews news_of(const Tape *tape, const std::string &why_none) {
  if (!tape)
    return {GraphNews::What::no_tape, why_none, 0, 0};
  return {GraphNews::What::taped, text_of(*tape), tape->ops(),
          static_cast<std::int64_t>(tape->bytes())};
}

} // namespace

/// The lock is held for the guards, and not for a run or a recording. `busy` is that lock.
struct Tapes::Impl final : Arena {
  Impl(const jit::Graph &graph, void (*interruptible)(), std::size_t dropped,
       std::function<void(const GraphNews &)> listener)
      : graph(graph), interruptible(interruptible), dropped(dropped),
        calls_to_record(calls_before(graph)), listener(std::move(listener)) {}

  const jit::Graph &graph;
  void (*const interruptible)();
  const std::size_t dropped;
  const int calls_to_record;
  const std::function<void(const GraphNews &)> listener;
  std::atomic_flag busy;
  std::atomic<bool> never{false}; ///< `why` says why

  /// Tapes for the same sizes.
  struct Sizes {
    bool are_idle() const {
      return std::all_of(copies.begin(), copies.end(),
                         [](const auto &one) { return one->is_free(); });
    }
    bool hold(c10::ArrayRef<c10::IValue> inputs, const Settings &now) const {
      Tape &first = *copies.front()->tape;
      return first.guards().settings() == now && first.holds(inputs);
    }

    Leases copies;
  };

  // Under the lock:
  std::vector<Sizes> made; ///< those that served last are the first
  struct Seen {
    std::unique_ptr<Guards> guards;
    int calls = 0;
  };
  std::array<Seen, kMostSizes> seen; ///< calls that no tape served
  std::size_t next = 0;              ///< in seen
  int recordings = 0;
  pid_t records = 0;             ///< the process in which a thread does so now
  std::string why;               ///< of all calls
  bool taped = false;            ///< the listener has heard of a tape
  const char *passing = nullptr; ///< of the last call; null: none
  // Of the thread that records, which `records` says:
  std::shared_ptr<jit::Graph> recorded; ///< a copy without blocks and outputs that are dropped

  const Registered registered{*this};

  bool run(Operands &operands);
  bool serve(Lease &lease, Operands &operands);
  void give_up(const char *reason);
  void end(Lease &lease);
  Lease *find(c10::ArrayRef<c10::IValue> inputs, const Settings &now, bool &knows);
  bool is_time_to_record(c10::ArrayRef<c10::IValue> inputs, const Settings &now, bool knows);
  const char *why_not_now(c10::ArrayRef<c10::IValue> inputs, const Settings &now) const;
  void record(c10::ArrayRef<c10::IValue> inputs, const Settings &now);
  std::unique_ptr<Tape> record_now(c10::ArrayRef<c10::IValue> inputs, std::string &why);
  void report(const GraphNews &news) const noexcept;
  void add(std::unique_ptr<Lease> lease, c10::ArrayRef<c10::IValue> inputs, const Settings &now,
           Leases &freed);
  bool try_lock() { return !busy.test_and_set(std::memory_order_acquire); }

  void lock() override {
    while (!try_lock())
      std::this_thread::yield();
  }
  void unlock() override { busy.clear(std::memory_order_release); }
  std::optional<std::int64_t> oldest() const override;
  std::unique_ptr<Lease> take_oldest() override;
  Leases take_idle(std::int64_t since) override;
};

Tapes::Tapes(const jit::Graph &graph, void (*interruptible)(), std::size_t dropped,
             std::function<void(const GraphNews &)> report)
    : impl_(std::make_unique<Impl>(graph, interruptible, dropped, std::move(report))) {}
Tapes::~Tapes() = default;

Optimize by_default() {
  const char *set = std::getenv("TRACEHOST_OPTIMIZE");
  if (!set || !*set)
    return Optimize::tapes;
  return std::string_view(set) == "off" ? Optimize::off : Optimize::exact;
}

bool Tapes::run(Operands &operands) {
  return !impl_->never.load(std::memory_order_relaxed) && impl_->run(operands);
}

bool Tapes::Impl::run(Operands &operands) {
  const auto inputs = operands.values();
  const Settings now = Settings::now();
  Lease *lease = nullptr;
  bool records_now = false;
  {
    const std::unique_lock locked(*this, std::try_to_lock);
    if (!locked) // another thread looks for its tape
      return false;
    bool knows = false;
    lease = find(inputs, now, knows);
    records_now = !lease && is_time_to_record(inputs, now, knows);
  }
  if (lease) [[likely]]
    return serve(*lease, operands);
  if (records_now) {
    operands.own();
    record(inputs, now);
  }
  return false;
}

/// A tape that serves, for this thread. `knows`: there is one, perhaps one that another thread has.
Lease *Tapes::Impl::find(c10::ArrayRef<c10::IValue> inputs, const Settings &now, bool &knows) {
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i].hold(inputs, now))
      continue;
    knows = true;
    if (i != 0)
      std::rotate(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(i),
                  made.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    for (const auto &lease : made.front().copies)
      if (lease->is_free()) {
        lease->runs_now.store(true, std::memory_order_relaxed);
        return lease.get();
      }
    return nullptr;
  }
  return nullptr;
}

bool Tapes::Impl::serve(Lease &lease, Operands &operands) {
  struct End {
    Impl &impl;
    Lease &lease;
    ~End() { impl.end(lease); }
  } const end{*this, lease};
  lease.last_run = milliseconds();
  ++lease.runs;
  std::optional<c10::WarningUtils::WarningHandlerGuard> warnings;
  if (lease.tape->dispatches())
    warnings.emplace(operands.warnings());
  if (!lease.tape->is_quiet())
    operands.own();
  if (lease.tape->run(operands.values(), operands.outputs(), interruptible)) {
    operands.use_outputs();
    return true;
  }
  ++lease.early;
  // Another thread that drew meanwhile gets its numbers twice, and what it wrote elsewhere in a
  // tensor is lost: once is enough.
  const bool restored = lease.tape->restores();
  if (restored || ends_too_often(lease))
    give_up(restored ? "a run ended behind a write or a draw"
                     : "a number decides about sizes or ends most runs");
  return false;
}

/// For all calls.
void Tapes::Impl::give_up(const char *reason) {
  {
    const std::scoped_lock locked(*this);
    if (never)
      return; // another thread's run has said so
    why = reason;
    never = true;
  }
  report({GraphNews::What::untaped, reason, 0, 0});
}

void Tapes::Impl::report(const GraphNews &news) const noexcept {
  try {
    if (listener)
      listener(news);
  } catch (const std::exception &) { // too little memory for a report
  }
}

/// Where the graph has given up tapes, each one goes when its run ends.
void Tapes::Impl::end(Lease &lease) {
  lease.runs_now.store(false, std::memory_order_release);
  if (!never.load(std::memory_order_relaxed)) [[likely]]
    return;
  Leases freed; // destroyed without the lock
  const std::scoped_lock locked(*this);
  while (oldest())
    freed.push_back(take_oldest());
}

/// Why a call is not recorded, though another one may be.
const char *Tapes::Impl::why_not_now(c10::ArrayRef<c10::IValue> inputs, const Settings &now) const {
  static_assert(kMostRecordings == 16);
  if (recordings >= kMostRecordings)
    return "calls had 16 sets of sizes";
  if (!now.are_plain())
    return "autocast, a profiler or a mode is on";
  if (!Guards::can_be_recorded(inputs))
    return "an input is no plain tensor on the CPU";
  if (!records_plainly() && needs_flat_graph(graph, inputs))
    return "hooks on saved tensors or anomaly mode are on";
  return nullptr;
}

/// The second call with the same sizes is recorded, or the fifth.
bool Tapes::Impl::is_time_to_record(c10::ArrayRef<c10::IValue> inputs, const Settings &now,
                                    bool knows) {
  if (records == getpid() || (knows && made.front().copies.size() >= kMostCopies))
    return false;
  if (!knows && (passing = why_not_now(inputs, now)))
    return false;
  for (Seen &one : seen)
    if (one.guards && one.guards->hold(inputs) && one.guards->settings() == now) {
      if (++one.calls < calls_to_record)
        return false;
      one.guards.reset();
      recordings += knows ? 0 : 1;
      records = getpid();
      return true;
    }
  seen[next++ % seen.size()] = {std::make_unique<Guards>(inputs), 1};
  return false;
}

std::unique_ptr<Tape> Tapes::Impl::record_now(c10::ArrayRef<c10::IValue> inputs,
                                              std::string &why_none) {
  try {
    if (!recorded)
      recorded = outline(graph, interruptible);
  } catch (const NoTape &none) {
    why_none = none.why;
    return nullptr;
  }
  while (recorded->outputs().size() + dropped > graph.outputs().size())
    recorded->eraseOutput(recorded->outputs().size() - 1);
  return Tape::record(*recorded, inputs, why_none);
}

void Tapes::Impl::record(c10::ArrayRef<c10::IValue> inputs, const Settings &now) {
  std::string why_none;
  const bool replaced = replaces_kernels();
  auto tape = replaced ? nullptr : record_now(inputs, why_none);
  auto planned = tape ? make_room(tape->bytes()) : nullptr;
  const GraphNews news = news_of(tape.get(), why_none);
  bool is_news = false;
  Leases freed; // destroyed without the lock
  {
    const std::scoped_lock locked(*this);
    records = 0;
    if (!why_none.empty()) {
      why = std::move(why_none);
      never = is_news = true;
    } else if (replaced) {
      passing = "torch.library has replaced a kernel of ATen's";
    } else if (!tape) {
      passing = "an op threw while the call was recorded";
    } else if (!planned) {
      passing = "the tapes that run now hold 256 MB";
      freed.push_back(std::make_unique<Lease>(std::move(tape), nullptr));
    } else {
      add(std::make_unique<Lease>(std::move(tape), std::move(planned)), inputs, now, freed);
      is_news = !std::exchange(taped, true);
    }
  }
  if (is_news)
    report(news);
}

/// Beside the tapes for the same sizes, or in the place of those that served least recently.
void Tapes::Impl::add(std::unique_ptr<Lease> lease, c10::ArrayRef<c10::IValue> inputs,
                      const Settings &now, Leases &freed) {
  for (Sizes &sizes : made)
    if (sizes.hold(inputs, now))
      return sizes.copies.push_back(std::move(lease));
  if (made.size() == kMostSizes) {
    const auto last = std::find_if(made.rbegin(), made.rend(),
                                   [](const Sizes &sizes) { return sizes.are_idle(); });
    if (last == made.rend())
      return freed.push_back(std::move(lease)); // other threads run all of them
    freed = std::move(last->copies);
    made.erase(std::next(last).base());
  }
  Sizes &sizes = *made.emplace(made.begin());
  sizes.copies.push_back(std::move(lease));
}

std::optional<std::int64_t> Tapes::Impl::oldest() const {
  std::optional<std::int64_t> found;
  for (const Sizes &sizes : made)
    for (const auto &lease : sizes.copies)
      if (lease->is_free() && (!found || lease->last_run < *found))
        found = lease->last_run;
  return found;
}

std::unique_ptr<Lease> Tapes::Impl::take_oldest() {
  const std::int64_t when = *oldest();
  for (auto sizes = made.begin(); sizes != made.end(); ++sizes)
    for (auto lease = sizes->copies.begin(); lease != sizes->copies.end(); ++lease) {
      if (!(*lease)->is_free() || (*lease)->last_run != when)
        continue;
      auto taken = std::move(*lease);
      sizes->copies.erase(lease);
      if (sizes->copies.empty())
        made.erase(sizes);
      return taken;
    }
  return nullptr; // not reached
}

Leases Tapes::Impl::take_idle(std::int64_t since) {
  Leases taken;
  for (Sizes &sizes : made)
    for (std::size_t i = sizes.copies.size(); i-- > 1;) {
      auto &lease = sizes.copies[i];
      if (!lease->is_free() || lease->last_run >= since)
        continue;
      taken.push_back(std::move(lease));
      sizes.copies.erase(sizes.copies.begin() + static_cast<std::ptrdiff_t>(i));
    }
  return taken;
}

std::size_t Tapes::count() const {
  const std::scoped_lock locked(*impl_);
  std::size_t sum = 0;
  for (const Impl::Sizes &sizes : impl_->made)
    sum += sizes.copies.size();
  return sum;
}

std::string Tapes::describe() const {
  const std::scoped_lock locked(*impl_);
  if (impl_->made.empty()) {
    const std::string why = impl_->passing && impl_->why.empty() ? impl_->passing : impl_->why;
    return "the interpreter" + (why.empty() ? why : ": " + why);
  }
  return text_of(*impl_->made.front().copies.front()->tape);
}

} // namespace tracehost::tape
