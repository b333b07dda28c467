#include "function/function.h"

#include "support/calls.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string_view>
#include <thread>

namespace tracehost {
namespace {

using test::Call;
using test::FakeBody;
using test::FakeSink;
using testing::ElementsAre;
using testing::HasSubstr;
using Strings = std::vector<std::string>;

Identity identity() {
  Identity result;
  result.name = "f";
  return result;
}

class FunctionTest : public testing::Test {
protected:
  /// `T` for a call that traced, `h` for a hit whose result was right, `o` for a body that
  /// continued without a graph. `u` for a miss that was left alone, `b` for a hit whose body ran
  /// beside it, `m` where they differed.
  char play(FunctionCore &f, FakeBody &body, std::int64_t n, std::int64_t size = 2,
            Stance stance = Stance::trace) {
    Call call(at::full(size, 3.0), n);
    call.stance = stance;
    Operands stack;
    SpecializationRef served;
    const auto outcome = f.call(body.of(call), stack, served);
    if (outcome == FunctionCore::Outcome::traced)
      return stack.empty() && served ? 'T' : '?';
    if (outcome == FunctionCore::Outcome::beside)
      return body.mismatch ? 'm' : 'b';
    if (outcome != FunctionCore::Outcome::hit)
      return served ? '?' : outcome == FunctionCore::Outcome::went_on ? 'o' : 'u';
    const bool right = stack.size() == 1 &&
                       at::equal(stack[0].toTensor(), at::full(size, 3.0 * static_cast<double>(n)));
    return right ? 'h' : '!';
  }
  std::string play(FunctionCore &f, FakeBody &body, const Strings &calls) {
    std::string result;
    for (const auto &c : calls)
      result += play(f, body, std::stoi(c));
    return result;
  }

  FakeSink sink;
  FakeBody body{[](const at::Tensor &x, std::int64_t n) { return x * n; }};
};

TEST_F(FunctionTest, TracesOnceAndThenHits) {
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(play(f, body, {"2", "2", "2"}), "Thh");
  EXPECT_EQ(body.runs, 1);
  EXPECT_EQ(f.counters()->traces, 1);
  EXPECT_EQ(f.counters()->hits, 2);
  EXPECT_EQ(f.counters()->live, 1);
  EXPECT_GT(f.counters()->trace_ns, 0);
}

TEST_F(FunctionTest, TriesTheOneThatServedLastFirst) {
  FunctionCore f(identity(), 8, sink);
  play(f, body, {"1", "2", "3"});
  EXPECT_EQ(play(f, body, {"1"}), "h");
  body.verified = 0;
  EXPECT_EQ(play(f, body, {"1", "1"}), "hh");
  EXPECT_EQ(body.verified, 2) << "one verify a call";
}

TEST_F(FunctionTest, TellsTheNearestDifference) {
  FunctionCore f(identity(), 8, sink);
  play(f, body, 1, 2);
  play(f, body, 2, 5);
  play(f, body, 2, 6);
  EXPECT_THAT(sink.take(), ElementsAre("created f", "trace (x: float32[2], n=1) first", testing::_,
                                       "trace (x: float32[6], n=2) x: 5 -> 6"));
}

TEST_F(FunctionTest, ComparesTheContext) {
  FunctionCore f(identity(), 8, sink);
  EXPECT_EQ(play(f, body, 2), 'T');
  {
    const at::NoGradGuard off;
    EXPECT_EQ(play(f, body, 2), 'T');
    EXPECT_EQ(play(f, body, 2), 'h');
  }
  EXPECT_EQ(play(f, body, 2), 'h');
}

/// A millisecond passes between two readings, on any machine.
std::chrono::steady_clock::time_point every_millisecond() {
  static std::chrono::steady_clock::time_point now;
  return now += std::chrono::milliseconds(1);
}

TEST_F(FunctionTest, EvictsTheLeastRecentlyUsedAfterSuccess) {
  FunctionCore f(identity(), 2, sink, {}, every_millisecond);
  EXPECT_EQ(play(f, body, {"1", "2", "1", "3", "1", "2", "3"}), "TThThTT");
  EXPECT_EQ(f.counters()->live, 2);
  EXPECT_EQ(f.counters()->evicted, 3);
  EXPECT_THAT(sink.take(), testing::Contains("evict (x: float32[2], n=2) hits 0"));
}

TEST_F(FunctionTest, SaysThatAnEvictedOneWouldHaveServed) {
  FunctionCore f(identity(), 1, sink);
  play(f, body, {"1", "2", "1"});
  EXPECT_THAT(sink.take(), testing::Contains(HasSubstr("n=1) again")));
}

TEST_F(FunctionTest, IsAsBeforeWhenTheBodyThrows) {
  FakeBody throws([](const at::Tensor &x, std::int64_t n) {
    if (n < 0)
      throw std::out_of_range("negative");
    return x * n;
  });
  FunctionCore f(identity(), 1, sink);
  EXPECT_EQ(play(f, throws, 1), 'T');
  sink.take();
  EXPECT_THROW(play(f, throws, -1), std::out_of_range);
  EXPECT_THAT(sink.take(), ElementsAre("fail app.cpp:7 negative"));
  EXPECT_EQ(play(f, throws, 1), 'h');
  EXPECT_EQ(f.counters()->traces, 1);
  EXPECT_EQ(f.counters()->evicted, 0);
}

TEST_F(FunctionTest, PublishesNothingThatIsRejectedAtTheEnd) {
  FunctionCore f(identity(), 1, sink);
  body.reject_at_end = true;
  EXPECT_THROW(play(f, body, 1), test::FakeFrontend::Rejected);
  EXPECT_TRUE(f.cache().list()->empty());
  body.reject_at_end = false;
  EXPECT_EQ(play(f, body, {"1", "1"}), "Th");
}

TEST_F(FunctionTest, ForgetsAllWhenCleared) {
  FunctionCore f(identity(), 4, sink);
  play(f, body, {"1", "2"});
  f.clear();
  EXPECT_EQ(f.counters()->live, 0);
  EXPECT_EQ(play(f, body, {"1", "1"}), "Th");
  EXPECT_EQ(f.counters()->traces, 3);
}

TEST_F(FunctionTest, TracesNoMissThatItsStanceForbids) {
  FunctionCore f(identity(), 4, sink);
  play(f, body, 1);
  for (const Stance stance : {Stance::eager_on_miss, Stance::fail_on_miss}) {
    EXPECT_EQ(play(f, body, 1, 2, stance), 'h');
    EXPECT_EQ(play(f, body, 2, 2, stance), 'u');
  }
  EXPECT_EQ(body.runs, 1);
  EXPECT_EQ(f.counters()->eager, 0) << "the front end's to count";
}

TEST_F(FunctionTest, GoesOnWithoutAGraphWhereATraceIsRejected) {
  FunctionCore f(identity(), 4, sink);
  at::Tensor seen;
  FakeBody reader([&](const at::Tensor &x, std::int64_t n) {
    seen = x * x.sum().item<double>();
    EXPECT_FALSE(trace::recording());
    return seen * n;
  });
  EXPECT_EQ(play(f, reader, 2, 2, Stance::eager_on_error), 'o');
  EXPECT_TRUE(at::equal(seen, at::full(2, 18.0)));
  EXPECT_EQ(play(f, reader, 2, 2, Stance::eager_on_error), 'u') << "not tried again";
  EXPECT_EQ(play(f, reader, 3, 2, Stance::eager_on_error), 'o');
  EXPECT_THROW(play(f, reader, 2), test::FakeFrontend::Rejected);
  EXPECT_EQ(reader.runs, 3);
  EXPECT_EQ(f.counters()->eager, 2);
  EXPECT_TRUE(f.cache().list()->empty());
  f.clear();
  EXPECT_EQ(play(f, reader, 2, 2, Stance::eager_on_error), 'o') << "forgotten";
  EXPECT_EQ(play(f, body, 5, 2, Stance::eager_on_error), 'T');
  EXPECT_EQ(play(f, body, 5, 2, Stance::eager_on_error), 'h');
}

TEST_F(FunctionTest, KeepsTheResultOfABodyWhoseTraceIsRejectedAtTheEnd) {
  FunctionCore f(identity(), 4, sink);
  body.reject_at_end = true;
  EXPECT_EQ(play(f, body, 1, 2, Stance::eager_on_error), 'o');
  EXPECT_EQ(body.runs, 1);
  EXPECT_THAT(sink.take(), testing::Contains("fail app.cpp:7 rejected at the end; went on"));
}

TEST_F(FunctionTest, DoesNotGoOnAfterTheBodysOwnException) {
  FunctionCore f(identity(), 4, sink);
  FakeBody failing([](const at::Tensor &x, std::int64_t n) -> at::Tensor {
    if (n == 2)
      static_cast<void>(x.sum().item<double>());
    throw std::out_of_range("the body's own");
  });
  EXPECT_THROW(play(f, failing, 1, 2, Stance::eager_on_error), std::out_of_range);
  EXPECT_THROW(play(f, failing, 2, 2, Stance::eager_on_error), std::out_of_range);
  EXPECT_EQ(failing.runs, 2);
}

TEST_F(FunctionTest, RefusesRecursionIntoTheSameSignature) {
  FunctionCore f(identity(), 4, sink);
  FakeBody *inner = nullptr;
  const Context outside = Context::now();
  FakeBody recursive([&](const at::Tensor &x, std::int64_t n) {
    Call call(x, n);
    call.context = outside; // a trace switches a dispatch key on
    Operands stack;
    SpecializationRef served;
    f.call(inner->of(call), stack, served);
    return x;
  });
  inner = &recursive;
  EXPECT_THROW(play(f, recursive, 1), std::logic_error);
  EXPECT_TRUE(f.cache().list()->empty());
}

TEST_F(FunctionTest, TracesOnceForManyThreads) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    FunctionCore f(identity(), 4, sink);
    std::atomic<int> runs{0}, right{0};
    std::latch start(8);
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        FakeBody own([&](const at::Tensor &x, std::int64_t n) { return ++runs, x * n; });
        start.arrive_and_wait();
        const char outcome = play(f, own, 2);
        right += outcome == 'T' || outcome == 'h';
      });
    for (auto &thread : threads)
      thread.join();
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(right, 8);
    EXPECT_EQ(f.counters()->traces, 1);
    EXPECT_EQ(f.counters()->hits, 7);
  }
}

TEST_F(FunctionTest, LetsEachWaiterRunAFailedTraceItself) {
  FunctionCore f(identity(), 4, sink);
  std::atomic<int> runs{0}, failed{0};
  std::latch start(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      FakeBody own([&](const at::Tensor &, std::int64_t) -> at::Tensor {
        ++runs;
        throw std::out_of_range("always");
      });
      start.arrive_and_wait();
      try {
        play(f, own, 2);
      } catch (const std::out_of_range &) {
        ++failed;
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(runs, 8);
  EXPECT_EQ(failed, 8);
  EXPECT_TRUE(f.cache().list()->empty());
}

TEST_F(FunctionTest, HitsWhileAnotherThreadTraces) {
  FunctionCore f(identity(), 4, sink);
  play(f, body, 1);
  std::latch inside(1), go(1);
  std::thread other([&] {
    FakeBody slow([&](const at::Tensor &x, std::int64_t n) {
      inside.count_down();
      go.wait();
      return x * n;
    });
    EXPECT_EQ(play(f, slow, 2), 'T');
  });
  inside.wait();
  EXPECT_EQ(play(f, body, {"1", "3", "3"}), "hTh");
  go.count_down();
  other.join();
  EXPECT_EQ(f.counters()->live, 3);
}

TEST_F(FunctionTest, ServesManyThreadsThatEvictEachOthers) {
  FunctionCore f(identity(), 3, sink);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      FakeBody own([](const at::Tensor &x, std::int64_t n) { return x * n; });
      for (int i = 0; i < 60; ++i) {
        const char outcome = play(f, own, (i + t) % 7);
        wrong += outcome != 'T' && outcome != 'h';
      }
    });
  for (auto &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.cache().list()->size(), 3);
  EXPECT_EQ(f.counters()->traces - f.counters()->evicted, 3);
  EXPECT_EQ(f.counters()->traces + f.counters()->hits, 240);
}

TEST_F(FunctionTest, AWrongGraphIsNotPublishedNorTriedAgain) {
  FakeBody sly([](const at::Tensor &x, std::int64_t n) {
    const auto result = x * n;
    x.data_ptr<float>()[1] += 1; // no op
    return result;
  });
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(play(f, sly, {"2", "2", "2"}), "ouu");
  EXPECT_EQ(sly.runs, 1) << "a miss that is left alone is the front end's to run";
  EXPECT_THAT(sink.take(),
              ElementsAre("created f",
                          "mismatch (x: float32[2], n=2) output 0, element (1,): 8.0 "
                          "in the graph, 6.0 in the body by aten::mul at net.py:12 hits 0"));
  EXPECT_EQ(f.counters()->mismatches, 1);
  EXPECT_EQ(f.counters()->traces, 0);
  EXPECT_EQ(f.counters()->eager, 1);
  EXPECT_EQ(play(f, sly, {"3"}), "o") << "another signature is tried";
  f.clear();
  EXPECT_EQ(play(f, sly, {"2"}), "o");
}

TEST_F(FunctionTest, WithoutValidationAWrongGraphIsPublished) {
  FakeBody sly([](const at::Tensor &x, std::int64_t n) {
    const auto result = x * n;
    x.data_ptr<float>()[1] += 1;
    return result;
  });
  FunctionCore f(identity(), 4, sink, {validate::Policy::When::never, 0});
  EXPECT_EQ(play(f, sly, {"2", "2"}), "Th");
  EXPECT_EQ(f.counters()->validated, 0);
}

TEST_F(FunctionTest, EveryNthHitRunsTheBodyBesideTheGraph) {
  FunctionCore f(identity(), 4, sink, {validate::Policy::When::every, 3});
  EXPECT_EQ(play(f, body, {"2", "2", "2", "2", "2", "2", "2"}), "Thhbhhb");
  EXPECT_EQ(body.runs, 3);
  EXPECT_EQ(f.counters()->validated, 3);
  EXPECT_EQ(f.counters()->hits, 6);
  EXPECT_EQ(play(f, body, {"5", "5"}), "Th") << "each specialization counts its own";
}

TEST_F(FunctionTest, ABodyThatCannotRunBesideIsOnlyCheckedAtItsTrace) {
  body.can_run_beside = false;
  FunctionCore f(identity(), 4, sink, {validate::Policy::When::every, 1});
  EXPECT_EQ(play(f, body, {"2", "2", "2"}), "Thh");
  EXPECT_EQ(f.counters()->validated, 1);
}

TEST_F(FunctionTest, ASpecializationThatIsFoundWrongIsDropped) {
  double factor = 1;
  FakeBody state([&](const at::Tensor &x, std::int64_t n) { return x * (n * factor); });
  FunctionCore f(identity(), 4, sink, {validate::Policy::When::every, 2});
  EXPECT_EQ(play(f, state, {"2", "2", "2"}), "Thb");
  factor = 2;
  EXPECT_EQ(play(f, state, {"2", "2", "2"}), "hmu");
  EXPECT_TRUE(f.cache().list()->empty());
  EXPECT_EQ(f.counters()->live, 0);
  EXPECT_THAT(sink.take(), testing::Contains(HasSubstr("6.0 in the graph, 12.0 in the body by "
                                                       "aten::mul at net.py:12 hits 4")));
}

/// Every trace of this Function serves its own call alone.
/// A body that needs numbers, and how often it computes `exp` before.
class ChoiceTest : public FunctionTest {
protected:
  ChoiceTest() {
    counting = at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction &op) {
                                       starts += std::string_view(op.name()) == "aten::exp" ? 1 : 0;
                                       return std::unique_ptr<at::ObserverContext>();
                                     }).scopes({at::RecordScope::FUNCTION}));
    static_cast<test::FakeFrontend &>(body.frontend()).reads = true;
  }
  ~ChoiceTest() override { at::removeCallback(counting); }
  /// What the call does, and how often it computes `exp`.
  std::string run(FunctionCore &f, double first, double second = 0) {
    Call call(at::tensor({first, second}), 0);
    Operands stack;
    SpecializationRef served;
    starts = 0;
    const auto outcome = f.call(body.of(call), stack, served);
    if (outcome != FunctionCore::Outcome::hit)
      return outcome == FunctionCore::Outcome::traced ? "T" : "?";
    const at::Tensor expected = call.x.exp() + call.x[0] * 100 + call.x[1];
    const int runs = starts - 1; // the line above has one, too
    return at::equal(stack[0].toTensor(), expected) ? "h" + std::to_string(runs) : "!";
  }

  static inline int starts = 0;
  at::CallbackHandle counting{};
  FakeBody body{[](const at::Tensor &x, std::int64_t) {
    const at::Tensor y = x.exp();
    const auto first = x[0].to(at::kLong).item<std::int64_t>();
    const auto second = x[1].to(at::kLong).item<std::int64_t>();
    return y + static_cast<double>(first) * 100 + static_cast<double>(second);
  }};
};

TEST_F(ChoiceTest, ACallRunsItsStartTwiceOfSixteenOutcomes) {
  FunctionCore f(identity(), 64, sink);
  for (int n = 0; n < 8; ++n) // one line may have 8 values
    EXPECT_EQ(run(f, n), "T");
  for (int n = 0; n < 8; ++n)
    EXPECT_EQ(run(f, 7, n), n ? "T" : "h1");
  EXPECT_EQ(run(f, 6, 1), "T");
  EXPECT_EQ(run(f, 6, 1), "h1");
  const auto traces = f.counters()->traces.load();
  EXPECT_EQ(traces, 16);
  for (int n = 0; n < 6; ++n) {
    EXPECT_EQ(run(f, n), "h2");
    EXPECT_EQ(run(f, n), "h1");
  }
  EXPECT_EQ(run(f, 7, 7), "h2") << "the one used last of those for 7 comes first";
  EXPECT_EQ(run(f, 6, 0), "h3") << "a check on each of two lines fails";
  for (int n = 0; n < 8; ++n)
    EXPECT_EQ(run(f, 7, n), n ? "h2" : "h3");
  EXPECT_EQ(f.counters()->traces, traces);
}

TEST_F(ChoiceTest, GraphsForOtherSizesAreNotCounted) {
  FunctionCore f(identity(), 64, sink);
  EXPECT_EQ(run(f, 1), "T");
  EXPECT_EQ(run(f, 2), "T");
  Call call(at::tensor({3.0, 0.0, 0.0}), 0);
  Operands stack;
  SpecializationRef served;
  EXPECT_EQ(f.call(body.of(call), stack, served), FunctionCore::Outcome::traced);
  EXPECT_TRUE(body.failed.empty());
  EXPECT_EQ(run(f, 3), "T");
  EXPECT_EQ(body.failed.size(), 2) << "one that ran, one that was left out";
  EXPECT_EQ(run(f, 1), "h2");
  EXPECT_EQ(body.failed.size(), 1);
}

class UnpaidTest : public FunctionTest {
protected:
  UnpaidTest() { body.once = "the body draws: it is traced again"; }
  std::string calls(FunctionCore &f, int count, std::int64_t n = 2) {
    std::string result;
    for (int i = 0; i < count; ++i)
      result += play(f, body, n);
    return result;
  }
};

TEST_F(UnpaidTest, ASignatureWhoseTracesServeNoCallBacksOff) {
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(calls(f, 7), "TTTTTTT");
  EXPECT_EQ(body.skips, 0u);
  EXPECT_EQ(calls(f, 1), "T");
  EXPECT_EQ(body.skips, 32u);
  EXPECT_EQ(calls(f, 32), std::string(32, 'u'));
  EXPECT_EQ(calls(f, 1), "T") << "it may pay again";
  EXPECT_EQ(body.skips, 64u);
  EXPECT_EQ(calls(f, 65), std::string(64, 'u') + "T");
}

TEST_F(UnpaidTest, SkippedCallsAreBounded) {
  FunctionCore f(identity(), 4, sink);
  calls(f, 8);
  for (const int skipped : {32, 64, 128, 256, 512, 1024, 1024})
    EXPECT_EQ(calls(f, skipped + 1), std::string(static_cast<std::size_t>(skipped), 'u') + "T");
}

TEST_F(UnpaidTest, OtherSignaturesAreTraced) {
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(calls(f, 9), "TTTTTTTTu");
  EXPECT_EQ(calls(f, 9, 3), "TTTTTTTTu");
  EXPECT_EQ(calls(f, 1), "u");
}

TEST_F(UnpaidTest, AHitStartsFromTheBeginning) {
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(calls(f, 7), "TTTTTTT");
  body.once.clear();
  EXPECT_EQ(calls(f, 2, 3), "Th");
  body.once = "the body draws: it is traced again";
  EXPECT_EQ(calls(f, 9), "TTTTTTTTu");
}

TEST_F(UnpaidTest, ClearForgetsIt) {
  FunctionCore f(identity(), 4, sink);
  EXPECT_EQ(calls(f, 9), "TTTTTTTTu");
  f.clear();
  EXPECT_EQ(calls(f, 9), "TTTTTTTTu");
}

TEST_F(FunctionTest, OnlyWhatCanBeTheNearestIsToldAsText) {
  for (const auto &[around, shown] : {std::pair{TraceSession::Surroundings::same, 0},
                                      std::pair{TraceSession::Surroundings::changed, 9},
                                      std::pair{TraceSession::Surroundings::unknown, 45}}) {
    FunctionCore f(identity(), 100, sink);
    FakeBody body([](const at::Tensor &x, std::int64_t n) { return x * n; });
    body.around = around;
    for (std::int64_t n = 1; n <= 10; ++n)
      EXPECT_EQ(play(f, body, n), 'T');
    EXPECT_EQ(body.shown, shown); // each of nine misses met those before it
    const auto events = sink.take();
    EXPECT_THAT(events.back(), HasSubstr("n: 9 -> 10")); // the latest of those as near
  }
}

} // namespace
} // namespace tracehost
