#include "program/interruption.h"

#include "program/nodes.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <atomic>
#include <chrono>
#include <utility>

namespace tracehost {

namespace jit = torch::jit;

namespace {

std::atomic<void (*)()> asks{nullptr};

constexpr auto kBetween = std::chrono::milliseconds(100);
constexpr int kOpsBetween = 8;

std::atomic<std::uint64_t> interruptions{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a handler may count");
thread_local bool signalled = false;     ///< a check has thrown
thread_local bool uninterrupted = false; ///< in such a scope

void interruptible(jit::Stack &) { ask_for_interruption(); }

const jit::RegisterOperators
    interruptible_registered({jit::Operator("tracehost::interruptible() -> ()", &interruptible,
                                            c10::AliasAnalysisKind::CONSERVATIVE)});

} // namespace

thread_local const Interruptible *Interruptible::innermost = nullptr;

void ask_for_interruption() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point last{};
  if (uninterrupted) [[unlikely]]
    return;
  if (Interruptible::innermost)
    if (const auto why = Interruptible::innermost->reached()) [[unlikely]]
      throw EndRun{*why};
  const auto check = asks.load(std::memory_order_relaxed);
  if (!check)
    return;
  const auto now = Clock::now();
  if (now - last < kBetween)
    return;
  last = now;
  try {
    check();
  } catch (...) {
    signalled = true;
    throw;
  }
}

void interrupt_runs() noexcept { interruptions.fetch_add(1, std::memory_order_relaxed); }

std::optional<ErrorCode> RunLimits::reached() const {
  if (stop.stop_requested())
    return ErrorCode::stopped;
  if (deadline && std::chrono::steady_clock::now() >= *deadline)
    return ErrorCode::deadline;
  return std::nullopt;
}

Interruptible::Interruptible(const RunLimits *limits) noexcept
    : outer_(std::exchange(innermost, this)), limits_(limits),
      begun_(outer_ ? outer_->begun_ : interruptions.load(std::memory_order_relaxed)) {}
Interruptible::~Interruptible() { innermost = outer_; }

std::optional<ErrorCode> Interruptible::reached() const {
  if (begun_ != interruptions.load(std::memory_order_relaxed)) [[unlikely]]
    return ErrorCode::interrupted;
  for (const Interruptible *call = this; call; call = call->outer_)
    if (call->limits_)
      if (const auto why = call->limits_->reached())
        return why;
  return std::nullopt;
}

void Interruptible::check_before() {
  if (innermost)
    if (const auto why = innermost->reached())
      throw Interrupted(*why, /*may_have_written=*/false);
}

void set_interruption_check(void (*check)()) { asks = check; }

Uninterrupted::Uninterrupted(bool active) noexcept
    : outer_(std::exchange(uninterrupted, uninterrupted || active)) {}
Uninterrupted::~Uninterrupted() { uninterrupted = outer_; }

bool take_signalled() { return std::exchange(signalled, false); }

InterruptionChecks::InterruptionChecks(jit::Graph &graph) {
  insert(*graph.block(), /*loop=*/false);
}

void InterruptionChecks::insert(jit::Block &block, bool loop) {
  int since = loop ? kOpsBetween : 0; // ops since the last check: a turn begins with one
  const auto insert_before = [this](jit::Node *node) {
    const jit::WithInsertPoint here(node);
    jit::Node *asks = insert_op(*node->owningGraph(), "tracehost::interruptible", {}, 0);
    asks->setSourceRange(node->sourceRange());
    nodes_.add(asks);
  };
  for (jit::Node *node : block.nodes()) {
    if (node->kind() == c10::prim::Constant)
      continue;
    if (since == kOpsBetween) {
      insert_before(node);
      since = 0;
    }
    ++since;
    for (jit::Block *inner : node->blocks())
      insert(*inner, node->kind() == c10::prim::Loop);
    // libtorch's bytecode may run a loop where its one result is used, behind the loads of what is
    // used with it. It then moves a value out in the loop's first turn. An op behind the loop keeps
    // the order.
    if (node->kind() == c10::prim::Loop)
      since = kOpsBetween;
  }
  const jit::Node *last = block.return_node()->prev();
  while (last->kind() == c10::prim::Constant)
    last = last->prev();
  if (last->kind() == c10::prim::Loop)
    insert_before(block.return_node());
}

} // namespace tracehost
