#include "program/interruption.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <atomic>
#include <chrono>

namespace tracehost {

namespace jit = torch::jit;

namespace {

std::atomic<void (*)()> asks{nullptr};

constexpr auto kBetween = std::chrono::milliseconds(100);
constexpr int kOpsBetween = 8;

void interruptible(jit::Stack &) {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point last{};
  const auto check = asks.load(std::memory_order_relaxed);
  if (!check)
    return;
  const auto now = Clock::now();
  if (now - last < kBetween)
    return;
  last = now;
  check();
}

const jit::RegisterOperators
    interruptible_registered({jit::Operator("tracehost::interruptible() -> ()", &interruptible,
                                            c10::AliasAnalysisKind::CONSERVATIVE)});

} // namespace

void set_interruption_check(void (*check)()) { asks = check; }

InterruptionChecks::InterruptionChecks(jit::Graph &graph) {
  if (asks.load())
    insert(*graph.block(), /*loop=*/false);
}

InterruptionChecks::~InterruptionChecks() {
  for (jit::Node *node : nodes_)
    node->destroy();
}

void InterruptionChecks::insert(jit::Block &block, bool loop) {
  int since = loop ? kOpsBetween : 0; // ops since the last check: a turn begins with one
  for (jit::Node *node : block.nodes()) {
    if (node->kind() == c10::prim::Constant)
      continue;
    if (since == kOpsBetween) {
      insert_before(*node);
      since = 0;
    }
    ++since;
    for (jit::Block *inner : node->blocks())
      insert(*inner, node->kind() == c10::prim::Loop);
  }
}

void InterruptionChecks::insert_before(jit::Node &node) {
  static const auto kind = c10::Symbol::fromQualString("tracehost::interruptible");
  jit::Node *check = node.owningGraph()->create(kind, 0);
  check->insertBefore(&node);
  check->setSourceRange(node.sourceRange());
  nodes_.push_back(check);
}

} // namespace tracehost
