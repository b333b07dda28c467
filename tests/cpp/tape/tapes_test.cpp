#include "support/tape_beside.h"
#include "tape/arena.h"

#include <torch/csrc/jit/runtime/custom_operator.h>

#include <sys/wait.h>
#include <unistd.h>

#include <mutex>
#include <thread>

/// Which calls a tape serves: sizes, threads, re-entry, the memory of the process, forks.

namespace tracehost::tape {
namespace {

/// A graph whose calls may have tapes.
class Settled {
public:
  explicit Settled(const std::string &text) : graph_(parse(text)), tapes(*graph_, nullptr) {}
  /// Whether a tape served.
  bool call(const at::Tensor &x) {
    Operands operands({x});
    return tapes.run(operands);
  }

private:
  std::shared_ptr<jit::Graph> graph_;

public:
  Tapes tapes;
};

constexpr const char *kNegates =
    "graph(%x : Tensor):\n  %y : Tensor = aten::neg(%x)\n  return (%y)";

TEST(Tapes, TheSecondCallWithTheSameSizesIsRecorded) {
  Settled f(kNegates);
  EXPECT_EQ(f.tapes.describe(), "the interpreter");
  EXPECT_FALSE(f.call(at::ones({3})));
  EXPECT_FALSE(f.call(at::ones({4})));
  EXPECT_FALSE(f.call(at::ones({3})));
  EXPECT_TRUE(f.call(at::ones({3})));
  EXPECT_FALSE(f.call(at::ones({4})));
  EXPECT_TRUE(f.call(at::ones({4})));
  EXPECT_EQ(f.tapes.describe(), "a tape (1 of 1 ops)");
}

TEST(Tapes, FourAtATimeAndTheOneUnusedForLongestIsDropped) {
  Settled f(kNegates);
  for (int size = 1; size <= 5; ++size)
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(f.call(at::ones({size})), i == 2) << size << " " << i;
  for (int size = 2; size <= 5; ++size)
    EXPECT_TRUE(f.call(at::ones({size})));
  EXPECT_FALSE(f.call(at::ones({1})));
}

TEST(Tapes, SizesThatComeAndGoAreRecordedSixteenTimes) {
  Settled f(kNegates);
  int served = 0;
  for (int size = 1; size <= 40; ++size)
    for (int i = 0; i < 3; ++i)
      served += f.call(at::ones({size}));
  EXPECT_EQ(served, 16);
}

TEST(Tapes, RunsThatEndEarlyTooOftenEndTheTape) {
  Settled f("graph(%x : Tensor):\n  %y : Tensor = aten::nonzero(%x)\n  return (%y)");
  const at::Tensor ones = at::ones({3}), zeros = at::zeros({3});
  f.call(ones);
  f.call(ones);
  EXPECT_TRUE(f.call(ones));
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(f.call(zeros));
  EXPECT_FALSE(f.call(ones));
  EXPECT_EQ(f.tapes.describe(), "the interpreter: a number decides about sizes or ends most runs");
}

/// What the op `aten::tests_again` calls once; then it forgets it. Other ops than aten have no
/// tapes.
std::function<void()> meanwhile;
const jit::RegisterOperators registered({jit::Operator(
    "aten::tests_again(Tensor x) -> Tensor",
    [](jit::Stack &stack) {
      if (const auto call = std::exchange(meanwhile, nullptr)) {
        const c10::impl::ForceDispatchKeyGuard as_another_thread(c10::default_included_set,
                                                                 c10::default_excluded_set);
        call();
      }
      stack.back() = stack.back().toTensor().neg();
    },
    c10::AliasAnalysisKind::FROM_SCHEMA)});

constexpr const char *kCallsAgain =
    "graph(%x : Tensor):\n  %y : Tensor = aten::tests_again(%x)\n  return (%y)";

TEST(Tapes, ACallWhileTheTapeRunsHasACopyFromItsThirdTime) {
  Settled f(kCallsAgain);
  const at::Tensor x = at::ones({3});
  f.call(x);
  f.call(x);
  for (int i = 0; i < 3; ++i) {
    bool served = false;
    meanwhile = [&] { served = f.call(x); };
    EXPECT_TRUE(f.call(x));
    EXPECT_EQ(served, i == 2) << i;
  }
  EXPECT_EQ(f.tapes.count(), 2U);
  EXPECT_TRUE(f.call(x)) << f.tapes.describe();
}

TEST(Tapes, ARunThatMayFreeWhatItWasLentOwnsIt) {
  Settled f(kCallsAgain);
  at::Tensor x = at::ones({3});
  f.call(x);
  f.call(x);
  const c10::weak_intrusive_ptr<c10::TensorImpl> tensor(x.getIntrusivePtr());
  bool freed = true;
  meanwhile = [&] {
    x.reset();
    freed = tensor.expired();
  };
  Operands operands;
  operands.lend(x);
  EXPECT_TRUE(f.tapes.run(operands));
  EXPECT_FALSE(freed);
  EXPECT_TRUE(tensor.expired()) << "the run has given it back";
  EXPECT_TRUE(operands[0].toTensor().equal(-at::ones({3})));
}

TEST(Tapes, CopiesDoNotCountAmongTheSizes) {
  Settled f(kCallsAgain);
  for (int size = 1; size <= 4; ++size)
    for (int i = 0; i < 5; ++i) {
      const at::Tensor x = at::ones({size});
      meanwhile = [&] { f.call(x); };
      f.call(x);
    }
  meanwhile = nullptr;
  EXPECT_GE(f.tapes.count(), 8U);
  for (int size = 1; size <= 4; ++size)
    EXPECT_TRUE(f.call(at::ones({size})));
}

TEST(Tapes, ATapeInUseIsNotDroppedForOtherSizes) {
  Settled f(kCallsAgain);
  const at::Tensor x = at::ones({9});
  f.call(x);
  f.call(x);
  meanwhile = [&] {
    for (int size = 1; size <= 5; ++size)
      for (int i = 0; i < 3; ++i)
        f.call(at::ones({size}));
  };
  Operands operands({x});
  EXPECT_TRUE(f.tapes.run(operands));
  EXPECT_TRUE(operands[0].toTensor().equal(-x));
  EXPECT_TRUE(f.call(x));
}

TEST(Tapes, ManyThreadsGetTheirOwnResults) {
  Settled negates(kNegates);
  constexpr int kThreads = 8;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0}, served{0};
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      for (int call = 0; call < 400; ++call) {
        const at::Tensor x = at::full({1 + call % 3, 5}, i * 1000 + call);
        Operands operands({x});
        if (!negates.tapes.run(operands))
          continue;
        ++served;
        wrong += !operands[0].toTensor().equal(-x);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(served, 0);
}

/// Two ops that are no region, with `megabytes` of memory between them.
at::Tensor of_megabytes(std::int64_t megabytes) { return at::ones({megabytes << 18}); }
constexpr const char *kSumsTwice = R"IR(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::cumsum(%x, %zero, %none)
  %b : Tensor = aten::cumsum(%a, %zero, %none)
  return (%b))IR";

TEST(Arena, TheTapesThatRanLeastRecentlyMakeRoom) {
  const std::size_t before = planned_bytes();
  {
    // Small enough that a call takes far less than the limit of a recording.
    const at::Tensor x = of_megabytes(2);
    std::vector<std::unique_ptr<Settled>> graphs;
    for (int i = 0; i < 140; ++i) {
      Settled &f = *graphs.emplace_back(std::make_unique<Settled>(kSumsTwice));
      f.call(x);
      f.call(x);
      EXPECT_EQ(f.tapes.count(), 1U) << i << ": " << f.tapes.describe();
      EXPECT_LE(planned_bytes(), std::size_t{256} << 20);
    }
    EXPECT_EQ(graphs.front()->tapes.count(), 0U);
    EXPECT_FALSE(graphs.front()->call(x));
    EXPECT_FALSE(graphs.front()->call(x)); // recorded
    EXPECT_TRUE(graphs.front()->call(x));
  }
  EXPECT_EQ(planned_bytes(), before);
}

TEST(Arena, ATapeThatRunsKeepsItsMemory) {
  const std::size_t before = planned_bytes();
  EXPECT_TRUE(make_room(std::size_t{200} << 20));
  EXPECT_EQ(planned_bytes(), before);
  EXPECT_FALSE(make_room(std::size_t{300} << 20));
}

/// An arena that notes what it is asked.
struct Asked final : Arena {
  void lock() override { mutex.lock(); }
  void unlock() override { mutex.unlock(); }
  std::optional<std::int64_t> oldest() const override { return std::nullopt; }
  std::unique_ptr<Lease> take_oldest() override { return nullptr; }
  Leases take_idle(std::int64_t since) override {
    idle_since = since;
    return {};
  }

  std::mutex mutex;
  std::int64_t idle_since = 0;
};

TEST(Arena, CopiesThatHaveNotRunForAMinuteAreFreedFirst) {
  Asked arena;
  const Registered registered(arena);
  const std::int64_t then = milliseconds();
  EXPECT_TRUE(make_room(1));
  EXPECT_GE(arena.idle_since, then - 60'000);
  EXPECT_LE(arena.idle_since, milliseconds() - 60'000);
}

TEST(Arena, AForkHasEachLockAtRest) {
  Asked arena;
  const Registered registered(arena);
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) {
      const std::scoped_lock locked(arena);
      arena.idle_since = milliseconds();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0)
      _exit(arena.mutex.try_lock() ? 0 : 1);
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  ends = true;
  other.join();
}

} // namespace
} // namespace tracehost::tape
