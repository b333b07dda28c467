#include "tape/blocks.h"
#include "tape/ops.h"
#include "tape/recording.h"
#include "tape/tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace tracehost::tape {
namespace {

constexpr std::size_t kMostTapes = 4; ///< at a time, of one graph
constexpr int kMostRecordings = 16;   ///< of one graph: sizes that never come again cost no more
constexpr std::size_t kMostBytes = std::size_t{256} << 20; ///< planned, of all in the process
std::atomic<std::size_t> all_bytes{0};
/// A recording takes about as long as five calls. Many sizes come twice, fewer five times.
constexpr std::ptrdiff_t kManyOps = 200;
constexpr int kCalls = 2, kCallsOfManyOps = 5;
constexpr std::uint64_t kMostEarly = 8; ///< so many runs may end early at first, then one in four

} // namespace

struct Tapes::Impl {
  struct Made {
    explicit Made(std::unique_ptr<Tape> tape) : tape(std::move(tape)) {
      all_bytes += this->tape->bytes();
    }
    Made(Made &&) = default;
    Made &operator=(Made &&) = default;
    ~Made() {
      if (tape)
        all_bytes -= tape->bytes();
    }

    std::unique_ptr<Tape> tape;
    std::uint64_t runs = 0, early = 0;
    bool ends_too_often() const { return early >= kMostEarly && early * 4 > runs; }
  };

  const jit::Graph &graph;
  void (*const interruptible)();
  const std::size_t dropped;
  const int calls_to_record;
  std::atomic_flag busy;          ///< a thread is in here, perhaps this one, called by an op
  std::atomic<bool> never{false}; ///< `why` says why
  std::vector<Made> made;         ///< the last one to serve is the first
  struct Seen {
    std::unique_ptr<Guards> guards;
    int calls = 0;
  };
  std::array<Seen, kMostTapes> seen; ///< calls that no tape served
  std::size_t next = 0;              ///< in seen
  int recordings = 0;
  std::shared_ptr<jit::Graph> recorded; ///< a copy without blocks and outputs that are dropped
  std::string why;                      ///< of all calls
  const char *passing;                  ///< of the last call; null: none
  bool run(jit::Stack &stack);
  bool serve(Made &tape, jit::Stack &stack);
  const char *why_not_now(c10::ArrayRef<c10::IValue> inputs, const Settings &now) const;
  void note(c10::ArrayRef<c10::IValue> inputs, const Settings &now);
  void record(c10::ArrayRef<c10::IValue> inputs);
};

namespace {

int calls_before(const jit::Graph &graph) {
  const auto nodes = graph.nodes();
  const auto ops = std::count_if(nodes.begin(), nodes.end(), [](const jit::Node *node) {
    return node->kind() != c10::prim::Constant;
  });
  return ops > kManyOps ? kCallsOfManyOps : kCalls;
}

} // namespace

Tapes::Tapes(const jit::Graph &graph, void (*interruptible)(), std::size_t dropped)
    : impl_(new Impl{graph,
                     interruptible,
                     dropped,
                     calls_before(graph),
                     {},
                     {},
                     {},
                     {},
                     0,
                     0,
                     {},
                     {},
                     nullptr}) {}
Tapes::~Tapes() = default;

bool by_default() {
  const char *set = std::getenv("TRACEHOST_OPTIMIZE");
  return set && std::string_view(set) == "exact";
}

bool Tapes::run(jit::Stack &stack) {
  Impl &self = *impl_;
  if (self.never.load(std::memory_order_relaxed) || self.busy.test_and_set())
    return false;
  struct Free {
    std::atomic_flag &busy;
    ~Free() { busy.clear(); }
  } const free{self.busy};
  return self.run(stack);
}

bool Tapes::Impl::run(jit::Stack &stack) {
  const auto inputs = jit::last(stack, graph.inputs().size());
  const Settings now = Settings::now();
  for (std::size_t i = 0; i < made.size(); ++i) {
    Tape &tape = *made[i].tape;
    if (tape.guards().settings() != now || !tape.holds(inputs))
      continue;
    if (i != 0)
      std::rotate(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(i),
                  made.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    return serve(made.front(), stack);
  }
  note(inputs, now);
  return false;
}

bool Tapes::Impl::serve(Made &one, jit::Stack &stack) {
  ++one.runs;
  if (one.tape->run(stack, interruptible)) {
    stack.resize(stack.size() + dropped);
    return true;
  }
  ++one.early;
  if (one.ends_too_often()) {
    why = "a number decides about sizes or ends most runs";
    never = true;
    made.clear();
  }
  return false;
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
void Tapes::Impl::note(c10::ArrayRef<c10::IValue> inputs, const Settings &now) {
  if (passing = why_not_now(inputs, now); passing)
    return;
  for (Seen &one : seen)
    if (one.guards && one.guards->hold(inputs) && one.guards->settings() == now) {
      if (++one.calls < calls_to_record)
        return;
      one.guards.reset();
      record(inputs);
      return;
    }
  seen[next++ % seen.size()] = {std::make_unique<Guards>(inputs), 1};
}

void Tapes::Impl::record(c10::ArrayRef<c10::IValue> inputs) {
  ++recordings;
  try {
    if (!recorded)
      recorded = outline(graph, interruptible);
  } catch (const NoTape &none) {
    why = none.why;
    never = true;
    return;
  }
  while (recorded->outputs().size() + dropped > graph.outputs().size())
    recorded->eraseOutput(recorded->outputs().size() - 1);
  auto tape = Tape::record(*recorded, inputs, why);
  if (tape && all_bytes + tape->bytes() > kMostBytes) {
    tape.reset();
    why = "the tapes of the process hold 256 MB";
  }
  if (!why.empty())
    never = true;
  if (!tape) {
    passing = "an op threw while the call was recorded";
    return;
  }
  if (made.size() == kMostTapes)
    made.pop_back();
  made.insert(made.begin(), Made(std::move(tape)));
}

std::string Tapes::describe() const {
  while (impl_->busy.test_and_set())
    std::this_thread::yield();
  std::string text = "the interpreter";
  if (!impl_->made.empty()) {
    const Tape &tape = *impl_->made.front().tape;
    text = "a tape";
    if (tape.regions() > 0)
      text += fmt::format(" + {} region{}", tape.regions(), tape.regions() == 1 ? "" : "s");
    text += fmt::format(" ({} of {} ops)", tape.kernels(), tape.ops());
  } else if (!impl_->why.empty()) {
    text += ": " + impl_->why;
  } else if (impl_->passing) {
    text += std::string(": ") + impl_->passing;
  }
  impl_->busy.clear();
  return text;
}

} // namespace tracehost::tape
